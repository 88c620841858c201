"""The tasks of the paper, written without parts: matrix by matrix."""

import numpy as np
from scipy.linalg import expm

import motorcost as mc


def reaching(
    effort=1e-5, velocity=0.2, force=0.02, motor_noise=0.5, target=0.1, steps=30, dt=0.01,
    sensory_noise=0.5, tau=0.04, aim_spread=0.0, start_spread=0.0, start_speed_spread=0.0,
):  # fmt: skip
    a = dt / tau
    A = [
        [1, dt, 0, 0, 0],
        [0, 1, dt, 0, 0],
        [0, 0, 1 - a, a, 0],
        [0, 0, 0, 1 - a, 0],
        [0, 0, 0, 0, 1],
    ]
    B = np.array([[0, 0, 0, a, 0]]).T
    at_end = np.array([[1, 0, 0, 0, -1], [0, velocity, 0, 0, 0], [0, 0, force, 0, 0]])
    Q = np.zeros((steps, 5, 5))
    Q[-1] = at_end.T @ at_end
    return mc.Problem(
        steps=steps,
        A=A,
        B=B,
        C=[motor_noise * B],
        H=np.eye(3, 5),
        W=sensory_noise * np.diag([0.02, 0.2, 1.0]),
        Q=Q,
        R=[[effort / (steps - 1)]],
        initial_belief=[0, 0, 0, 0, target],
        initial_belief_cov=np.diag([start_spread, start_speed_spread, 0, 0, aim_spread]) ** 2,
        states={"position": "m", "velocity": "m/s", "force": "N", "muscle": "N", "target": "m"},
        controls={"control": "N"},
        senses={"felt position": "m", "felt velocity": "m/s", "felt force": "N"},
        dt=dt,
    )


def saccade(
    effort=1e-3, motor_noise=0.08**0.5, process_noise=0.1, sensory_noise=1e-3, tau_slow=0.224,
    tau_fast=0.013, start=-10.0, target=10.0, steps=40, hold_start=5, hold_target=10, dt=0.00125,
    aim_spread=0.0, start_spread=0.0, start_speed_spread=0.0,
):  # fmt: skip
    product = tau_slow * tau_fast
    continuous = [
        [0, 1, 0],
        [-1 / product, -(tau_slow + tau_fast) / product, 1 / product],
        [0, 0, 0],
    ]
    discrete = expm(np.array(continuous) * dt)
    A, B = np.eye(3), np.zeros((3, 1))
    A[:2, :2], B[:2, 0] = discrete[:2, :2], discrete[:2, 2]
    off_start, off_target = np.array([1.0, 0.0, -start / target]), np.array([1.0, 0.0, -1.0])
    Q = np.zeros((steps, 3, 3))
    Q[:hold_start] = np.outer(off_start, off_start)
    Q[steps - hold_target :] = np.outer(off_target, off_target)
    return mc.Problem(
        steps=steps,
        A=A,
        B=B,
        C=[motor_noise * B],
        V=process_noise * np.diag(np.abs(B[:, 0]))[:, :2],
        H=np.eye(2, 3),
        W=sensory_noise * np.eye(2),
        Q=Q,
        R=[[effort / steps]],
        initial_belief=[start, 0.0, target],
        initial_belief_cov=np.diag([start_spread, start_speed_spread, aim_spread]) ** 2,
        states={"angle": "deg", "velocity": "deg/s", "target": "deg"},
        controls={"control": "deg"},
        senses={"seen angle": "deg", "seen velocity": "deg/s"},
        dt=dt,
    )


def tracking(
    effort=1e-3, motor_noise=0.2, sensory_noise=0.005, wander=0.05, mass=1.0, damping=1.0,
    steps=180, dt=1 / 60, start_spread=0.0, start_speed_spread=0.0,
):  # fmt: skip
    B = np.array([[0.0], [dt / mass], [0.0]])
    distance = np.array([1.0, 0.0, -1.0])
    return mc.Problem(
        steps=steps,
        A=[[1, dt, 0], [0, 1 - dt * damping / mass, 0], [0, 0, 1]],
        B=B,
        C=[motor_noise * B],
        V=[[0.0], [0.0], [wander * np.sqrt(dt)]],
        H=[[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]],
        W=sensory_noise * np.eye(2),
        Q=np.outer(distance, distance),
        R=[[effort]],
        initial_belief_cov=np.diag([start_spread, start_speed_spread, 0]) ** 2,
        states={"position": "m", "velocity": "m/s", "target": "m"},
        controls={"force": "N"},
        senses={"seen position": "m", "seen target": "m"},
        dt=dt,
    )
