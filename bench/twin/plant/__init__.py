"""What the simulated rig physically is: a stage in a compliant frame presses a specimen against a force sensor."""
