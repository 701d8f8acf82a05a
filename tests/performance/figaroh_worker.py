"""Run by an interpreter that has figaroh 1.0.2: times its identification on states and torques from an npz file.

Prints one JSON line: seconds, extra memory in MB. Its own weighted solution makes a dense matrix of all rows squared,
29 GB for ten thousand samples; here its rows are divided by each joint's residual instead, which costs less and gives
the same.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from types import SimpleNamespace
from typing import Any


def main(path: str) -> None:
    warnings.simplefilter("ignore")
    import numpy as np
    import pinocchio as pin
    from figaroh.identification.identification_tools import relative_stdev
    from figaroh.tools.qrdecomposition import QRDecomposer
    from figaroh.tools.regressor import build_regressor_basic, eliminate_non_dynaffect

    given = np.load(path)
    q, v, a, torque = (given[name] for name in ("q", "v", "a", "torque"))
    model = pin.Model()
    parent = 0
    for placement in given["placements"]:
        place = pin.SE3(placement[:3, :3].copy(), placement[:3, 3].copy())
        parent = model.addJoint(parent, pin.JointModelRZ(), place, f"joint_{parent}")
        model.appendBodyToJoint(parent, pin.Inertia.Random(), pin.SE3.Identity())
    robot: Any = SimpleNamespace(model=model, data=model.createData())
    settings = {
        "has_friction": True,
        "has_actuator_inertia": True,
        "has_joint_offset": True,
        "is_joint_torques": True,
        "act_idxv": list(range(model.nv)),
    }
    names = {f"p{k}": 0.0 for k in range(14 * model.nv)}
    tau = torque.T.ravel()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    whole = build_regressor_basic(robot, q, v, a, settings)
    reduced, kept = eliminate_non_dynaffect(whole, names)
    base, _, _, values = QRDecomposer().double_decomposition(tau, reduced, kept)[:4]
    relative_stdev(base, values, tau)
    left = (tau - base @ values).reshape(model.nv, -1)
    weight = np.repeat(1.0 / np.sqrt(np.mean(left**2, axis=1)), len(q))
    weighted = np.linalg.lstsq(base * weight[:, None], tau * weight, rcond=None)[0]
    relative_stdev(base * weight[:, None], weighted, tau * weight)
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"seconds": seconds, "memory_MB": (after - before) / 1024.0, "parameters": len(weighted)}))


if __name__ == "__main__":
    main(sys.argv[1])
