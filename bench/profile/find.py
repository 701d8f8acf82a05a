"""Where profiles lie."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from bench.errors import ProfileError
from bench.profile.problem import near_miss

FOLDERS = ("rigs", "specimens", "procedures", "acceptance", "twins", "imports", "arms", "trajectories")


def profiles_root(root: Path | None = None) -> Path:
    """Return ``root``, else ``./profiles`` where it exists, else the profiles that come with the bench."""
    if root is not None:
        return root
    here = Path("profiles")
    checkout = Path(__file__).resolve().parents[2] / "profiles"
    installed = Path(sysconfig.get_path("data")) / "share" / "forcebench" / "profiles"
    return next((folder for folder in (here, checkout) if folder.is_dir()), installed)


def find_profile(kind_folder: str, name: str | Path, root: Path | None = None) -> Path:
    """Return the file of a profile given by name ("indenter") or by path.

    Parameters
    ----------
    kind_folder : str
        One of :data:`FOLDERS`.
    name : str or Path
        File stem inside that folder, or a path to a ``.toml`` file.
    root : Path, optional
        Profiles folder; see :func:`profiles_root`.

    Raises
    ------
    ProfileError
        Nothing is there; near misses and all names are listed.
    """
    if kind_folder not in FOLDERS:
        remedy = near_miss(kind_folder, FOLDERS) or f"Known: {', '.join(FOLDERS)}"
        raise ProfileError(f'"{kind_folder}" is no folder of profiles', remedy=remedy)
    given = Path(name)
    if given.suffix == ".toml" and given.is_file():
        return given
    folder = profiles_root(root) / kind_folder
    found = folder / (given.name if given.suffix == ".toml" else f"{given.name}.toml")
    if str(given) == given.name and found.is_file():
        return found
    if given.suffix == ".toml" and str(given) != given.name:
        remedy = near_miss(given.name, sorted(path.name for path in given.parent.glob("*.toml")))
        raise ProfileError("there is no such file", where=str(given), remedy=remedy or f"Or give a name in {folder}")
    names = sorted(path.stem for path in folder.glob("*.toml"))
    remedy = f"{near_miss(given.stem, names)} Known: {', '.join(names) or 'none'}".strip()
    if not names:
        remedy += ". A folder of profiles is used alone: copy what is missing into it, or name another folder"
    raise ProfileError(f'there is no profile "{name}"', where=str(folder), remedy=remedy)
