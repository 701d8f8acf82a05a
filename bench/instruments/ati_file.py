"""ATI force/torque calibration files (``.cal``): what they say, checked, in N, N.m and V.

::

    calibration = AtiCalibration.read("FT00001.cal")
    wrench = volts @ calibration.matrix.T             # (n, n_gauges) V to (n, 6) N and N.m
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from bench.errors import CalibrationError
from bench.instruments.protocols import Floats

AXES = ("Fx", "Fy", "Fz", "Tx", "Ty", "Tz")
MAX_GAUGES = 8  # what ATI's own library can hold

_POUND_FORCE = 4.4482216152605  # N, exact by definition of the international pound and of standard gravity
_KILOGRAM_FORCE = 9.80665  # N
_INCH = 0.0254  # m
_FORCE_N = {
    "N": 1.0,
    "kN": 1e3,
    "lb": _POUND_FORCE,
    "lbf": _POUND_FORCE,
    "klb": 1e3 * _POUND_FORCE,
    "klbf": 1e3 * _POUND_FORCE,
    "kg": _KILOGRAM_FORCE,
    "g": 1e-3 * _KILOGRAM_FORCE,
}
_TORQUE_NM = {
    **dict.fromkeys(("N-m", "Nm"), 1.0),
    **dict.fromkeys(("N-mm", "Nmm"), 1e-3),
    **dict.fromkeys(("kN-m", "kNm"), 1e3),
    **dict.fromkeys(("in-lb", "in-lbf", "lb-in", "lbf-in"), _POUND_FORCE * _INCH),
    **dict.fromkeys(("ft-lb", "ft-lbf", "lb-ft", "lbf-ft"), _POUND_FORCE * 12 * _INCH),
    **dict.fromkeys(("kg-cm", "kgcm"), _KILOGRAM_FORCE * 1e-2),
}
_LENGTH_M = {"m": 1.0, "cm": 1e-2, "mm": 1e-3, "in": _INCH, "ft": 12 * _INCH}
_ANGLE_RAD = {
    **dict.fromkeys(("deg", "degree", "degrees"), math.pi / 180),
    **dict.fromkeys(("rad", "radian", "radians"), 1.0),
}


def transform_matrix(displacement_m: Sequence[float], rotation_rad: Sequence[float]) -> Floats:
    """Return the (6, 6) matrix that moves a wrench [F, T] in N, N.m to another frame.

    F′ = R F and T′ = R (T − D × F), with D the displacement to the new origin in the old frame and R the passive
    rotation about x, then y, then z. Source: ATI Industrial Automation, DAQ F/T C library 1.0.2, tool transform.

    Parameters
    ----------
    displacement_m : sequence of 3 floats
        Displacement Dx, Dy, Dz [m].
    rotation_rad : sequence of 3 floats
        Rotations Rx, Ry, Rz [rad].
    """
    dx, dy, dz = displacement_m
    (sx, sy, sz), (cx, cy, cz) = np.sin(rotation_rad), np.cos(rotation_rad)
    about_x = np.array([[1, 0, 0], [0, cx, sx], [0, -sx, cx]])
    about_y = np.array([[cy, 0, -sy], [0, 1, 0], [sy, 0, cy]])
    about_z = np.array([[cz, sz, 0], [-sz, cz, 0], [0, 0, 1]])
    rotation = about_z @ about_y @ about_x
    cross = np.array([[0, -dz, dy], [dz, 0, -dx], [-dy, dx, 0]])
    matrix = np.zeros((6, 6))
    matrix[:3, :3] = matrix[3:, 3:] = rotation
    matrix[3:, :3] = -rotation @ cross
    return matrix


@dataclass(frozen=True, eq=False)
class AtiCalibration:
    """One calibration of one ATI transducer, in N, N.m and V whatever the file's own units.

    ``matrix`` (6, n_gauges) turns gauge volts into [Fx Fy Fz Tx Ty Tz] in N and N.m, transform included.
    ``basic_matrix`` is the same before the built-in transform. ``rated`` (6,) is the largest calibrated load of each
    axis in N and N.m (inf where the file gives none); ``output_range_v`` is what the gauges can put out.
    """

    path: Path
    sha256: str
    serial_number: str
    part_number: str
    body_style: str
    family: str
    calibration_date: str
    force_unit: str
    torque_unit: str
    matrix: Floats
    basic_matrix: Floats
    scales: Floats
    displacement_m: tuple[float, float, float]
    rotation_rad: tuple[float, float, float]
    rated: Floats
    output_range_v: tuple[float, float]

    @property
    def gauges(self) -> int:
        """How many gauge channels the sensor has."""
        return int(self.matrix.shape[1])

    @classmethod
    def read(cls, path: Path | str, part_number: str | None = None) -> AtiCalibration:
        """Read a ``.cal`` file.

        Parameters
        ----------
        path : path
            The file.
        part_number : str, optional
            Which calibration to take when the file holds several; needed only then.

        Raises
        ------
        CalibrationError
            The file is missing, no ATI calibration, inconsistent in itself or in units nobody knows.
        """
        path = Path(path)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise CalibrationError(
                f"cannot read the calibration file: {error.strerror or error}",
                where=str(path),
                remedy="Copy the .cal file from the sensor's CD or ask ATI for it by serial number",
            ) from error
        return cls.parse(content, path, part_number)

    @classmethod
    def parse(cls, content: bytes, path: Path, part_number: str | None = None) -> AtiCalibration:
        """Return the calibration that the ``content`` of a file is; ``path`` says in messages where it is from."""
        return _Reader(path, content).calibration(part_number)


class _Reader:
    """Reads one file; every complaint names the file and the element."""

    def __init__(self, path: Path, content: bytes) -> None:
        self.path = path
        self.sha256 = hashlib.sha256(content).hexdigest()
        try:
            self.root = ElementTree.fromstring(content)
        except ElementTree.ParseError as error:
            raise self.problem(f"not well-formed XML ({error})", "Copy the file again, unedited") from error
        if self.root.tag != "FTSensor":
            raise self.problem(
                f"the root element is <{self.root.tag}>, not <FTSensor>", "This is no ATI calibration file"
            )

    def problem(self, what: str, remedy: str, element: str = "") -> CalibrationError:
        return CalibrationError(what, where=f"{self.path}{f' <{element}>' if element else ''}", remedy=remedy)

    def calibration(self, part_number: str | None) -> AtiCalibration:
        element = self._choose(part_number)
        gauges = self._gauges()
        force_unit, force = self._unit(element, "ForceUnits", _FORCE_N)
        torque_unit, torque = self._unit(element, "TorqueUnits", _TORQUE_NM)
        si = np.repeat([force, torque], 3)[:, None]
        displacement, rotation = self._transform(element)
        rows, rated, scales = self._axes(element, "Axis", gauges)
        user, user_rated, _ = self._axes(element, "UserAxis", gauges)
        if rows is None and user is None:
            raise self.problem("there is no <Axis> element", "Copy the file again, unedited", "Calibration")
        transform = transform_matrix(displacement, rotation)
        if rows is None:  # only the working matrix is given: it has the transform in it
            assert user is not None
            matrix = user * si
            basic = np.linalg.solve(transform, matrix)
            rated, scales = user_rated, np.ones(6)
        else:
            basic = rows / scales[:, None] * si
            matrix = transform @ basic
            if user is not None:
                self._compare(matrix, user * si)
        self._no_software_compensation(element)
        return AtiCalibration(
            path=self.path,
            sha256=self.sha256,
            serial_number=self._text(self.root, "Serial"),
            part_number=element.get("PartNumber", ""),
            body_style=self.root.get("BodyStyle", ""),
            family=self.root.get("Family", ""),
            calibration_date=element.get("CalDate", ""),
            force_unit=force_unit,
            torque_unit=torque_unit,
            matrix=_frozen(matrix),
            basic_matrix=_frozen(basic),
            scales=_frozen(scales),
            displacement_m=displacement,
            rotation_rad=rotation,
            rated=_frozen(rated * si[:, 0]),
            output_range_v=self._output_range(element),
        )

    def _choose(self, part_number: str | None) -> ElementTree.Element:
        found = self.root.findall("Calibration")
        names = [element.get("PartNumber", "") for element in found]
        if part_number is not None:
            found = [element for element in found if element.get("PartNumber") == part_number]
        if len(found) == 1:
            return found[0]
        if not names:
            raise self.problem("there is no <Calibration> element", "Copy the file again, unedited")
        raise self.problem(
            f"{len(names)} calibrations ({', '.join(names)}), {len(found)} of them match {part_number!r}",
            "Name the part number that is wired up",
        )

    def _gauges(self) -> int:
        gauges = self._number(self.root, "NumGages", "FTSensor")
        if gauges != int(gauges) or not 1 <= gauges <= MAX_GAUGES:
            raise self.problem(
                f"NumGages is {gauges:g}, expected 1 to {MAX_GAUGES}", "Copy the file again, unedited", "FTSensor"
            )
        return int(gauges)

    def _text(self, element: ElementTree.Element, name: str) -> str:
        text = element.get(name, "").strip()
        if not text:
            raise self.problem(f"attribute {name} is missing", "Copy the file again, unedited", element.tag)
        return text

    def _unit(self, element: ElementTree.Element, name: str, known: dict[str, float]) -> tuple[str, float]:
        text = self._text(element, name)
        if text not in known:
            raise self.problem(
                f'{name} is "{text}", expected one of {", ".join(known)}', "Ask ATI for a file in SI", element.tag
            )
        return text, known[text]

    def _number(self, element: ElementTree.Element, name: str, label: str, default: float | None = None) -> float:
        text = element.get(name, "").strip()
        if not text and default is not None:
            return default
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise self.problem(f'{name} is "{text}", expected a number', "Copy the file again, unedited", label)
        return value

    def _transform(self, element: ElementTree.Element) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
        found = element.find("BasicTransform")
        if found is None:
            return (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
        _, length = self._unit(element, "DistUnits", _LENGTH_M)
        angle_unit = element.get("AngleUnits", "degrees")
        if angle_unit not in _ANGLE_RAD:
            raise self.problem(f'AngleUnits is "{angle_unit}"', f"Expected one of {', '.join(_ANGLE_RAD)}", element.tag)
        dx, dy, dz = (self._number(found, name, found.tag, 0.0) * length for name in ("Dx", "Dy", "Dz"))
        rx, ry, rz = (self._number(found, name, found.tag, 0.0) * _ANGLE_RAD[angle_unit] for name in ("Rx", "Ry", "Rz"))
        return (dx, dy, dz), (rx, ry, rz)

    def _axes(self, element: ElementTree.Element, tag: str, gauges: int) -> tuple[Floats | None, Floats, Floats]:
        """Rows in file units (6, gauges), rated loads (6,) and scales (6,)."""
        rows, rated, scales = np.zeros((6, gauges)), np.full(6, np.inf), np.ones(6)
        found = element.findall(tag)
        if not found:
            return None, rated, scales
        names = [axis.get("Name", "") for axis in found]
        if sorted(names) != sorted(AXES):
            raise self.problem(
                f"axes {', '.join(names)}; the bench needs each of {', '.join(AXES)} once",
                "Use the file of a six-axis transducer",
                tag,
            )
        for axis in found:
            name = axis.get("Name", "")
            label, k = f"{tag} {name}", AXES.index(name)
            words = axis.get("values", "").split()
            if len(words) != gauges:
                raise self.problem(
                    f"{len(words)} gauge values, but NumGages is {gauges}", "Copy the file again, unedited", label
                )
            try:
                rows[k] = [float(word) for word in words]
            except ValueError as error:
                raise self.problem(f"values: {error}", "Copy the file again, unedited", label) from error
            if not np.isfinite(rows[k]).all():
                raise self.problem("values are not all finite", "Copy the file again, unedited", label)
            scales[k] = self._number(axis, "scale", label, 1.0)
            if scales[k] == 0:
                raise self.problem("scale is 0", "Copy the file again, unedited", label)
            rated[k] = self._number(axis, "max", label, 0.0) or np.inf
        return rows, rated, scales

    def _compare(self, matrix: Floats, user: Floats) -> None:
        """Refuse a file whose own working matrix says something else than its axes and transform."""
        allowed = 1e-3 * np.abs(matrix).max(axis=1) + 1e-5  # <UserAxis> carries five decimals
        worst = np.abs(matrix - user).max(axis=1)
        if (worst > allowed).any():
            k = int(np.argmax(worst / allowed))
            raise self.problem(
                f"<Axis>, scale and <BasicTransform> give another {AXES[k]} row than <UserAxis> (by {worst[k]:.3g})",
                "The file was edited or is damaged: get the original",
            )

    def _no_software_compensation(self, element: ElementTree.Element) -> None:
        for tag in ("BiasSlope", "GainSlope"):
            slopes = element.find(tag)
            if slopes is not None and any(word.strip("+-0.eE") for word in slopes.get("values", "").split()):
                raise self.problem(
                    f"<{tag}> asks for temperature compensation in software, with a thermistor as one more channel",
                    "The bench reads transducers compensated in hardware (HWTempComp): ask ATI",
                )

    def _output_range(self, element: ElementTree.Element) -> tuple[float, float]:
        span = self._number(element, "OutputRange", element.tag, 20.0)
        bipolar = element.get("OutputBipolar", "True").strip().lower() != "false"
        return (-span / 2, span / 2) if bipolar else (0.0, span)


def _frozen(values: Floats) -> Floats:
    values = np.ascontiguousarray(values, dtype=np.float64)
    values.flags.writeable = False
    return values
