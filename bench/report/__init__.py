"""Pictures and pages of what was checked and measured; self-contained, inline SVG."""
