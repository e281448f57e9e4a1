"""Simulators with their adjoints, written as their authors would write them.

None of them was tuned to be checked. Each entry of SYSTEMS gives (forward, keyword,
backward, input, options).
"""

from __future__ import annotations

import numpy as np
from scipy import integrate, interpolate, linalg, optimize

# 1. Lotka–Volterra by an adaptive Runge–Kutta method; the adjoint ODE runs backward.

SPAN = (0.0, 1.5)
START = np.array([1.0, 0.5])


def _rates(_t, y, p):
    return np.array(
        [p[0] * y[0] - p[1] * y[0] * y[1], p[1] * y[0] * y[1] - p[2] * y[1]]
    )


def populations(p, rtol=1e-6):
    out = integrate.solve_ivp(
        _rates, SPAN, START, args=(p,), rtol=rtol, atol=1e-3 * rtol
    )
    return out.y[:, -1]


def populations_vjp(ybar, p, rtol=1e-6):
    there = integrate.solve_ivp(
        _rates, SPAN, START, args=(p,), rtol=rtol, atol=1e-3 * rtol, dense_output=True
    )

    def back(t, state):
        y, a = there.sol(t), state[:2]
        jacobian = np.array(
            [[p[0] - p[1] * y[1], -p[1] * y[0]], [p[1] * y[1], p[1] * y[0] - p[2]]]
        )
        by_p = np.array([[y[0], -y[0] * y[1], 0.0], [0.0, y[0] * y[1], -y[1]]])
        return np.concatenate([-jacobian.T @ a, -by_p.T @ a])

    out = integrate.solve_ivp(
        back,
        SPAN[::-1],
        np.concatenate([ybar, np.zeros(3)]),
        rtol=rtol,
        atol=1e-3 * rtol,
    )
    return out.y[2:, -1]


# 2. Newton's method for x³ + a x = b, started where the last call ended.


class Newton:
    def __init__(self):
        self.last = None

    def reset(self):
        self.last = None

    def __call__(self, ab):
        a, b = ab
        x = np.zeros_like(a) + 1.0 if self.last is None else self.last
        for _ in range(50):
            step = (x**3 + a * x - b) / (3 * x**2 + a)
            x = x - step
            if np.abs(step).max() < 1e-10:
                break
        self.last = x
        return x

    def vjp(self, ybar, ab):
        x = self(ab)
        w = ybar / (3 * x**2 + ab[0])
        return np.stack([-x * w, w])


# 3. A block that slides on a floor with dry friction until it stops, hit by a spring.


def sliding(q, n=200):
    """Where it comes to rest, and when; q = (speed, stiffness of a bumper at 1)."""
    x, v, dt, stopped = 0.0, q[0], 0.01, 0.0
    for _ in range(n):
        push = -q[1] * max(x - 1.0, 0.0)
        force = push - 0.5 * np.sign(v)
        v_new = v + dt * force
        if v_new * v < 0:  # friction stops it, it does not turn it round
            v_new = 0.0 if abs(push) < 0.5 else v_new
        x, v = x + dt * v_new, v_new
        stopped += dt * abs(v)
    return np.array([x, stopped])


def sliding_jacobian(q, n=200):
    x, v, dt = 0.0, q[0], 0.01
    dx, dv, ds = np.zeros(2), np.array([1.0, 0.0]), np.zeros(2)
    for _ in range(n):
        push = -q[1] * max(x - 1.0, 0.0)
        dpush = -q[1] * (x > 1.0) * dx - np.array([0.0, max(x - 1.0, 0.0)])
        v_new = v + dt * (push - 0.5 * np.sign(v))
        dv_new = dv + dt * dpush
        if v_new * v < 0 and abs(push) < 0.5:
            v_new, dv_new = 0.0, np.zeros(2)
        x, v, dx, dv = x + dt * v_new, v_new, dx + dt * dv_new, dv_new
        ds = ds + dt * np.sign(v) * dv
    return np.stack([dx, ds])


# 4. A quadratic programme by operator splitting, stopped early; its optimality system.

P = np.array([[3.0, 0.5, 0.25], [0.5, 2.0, 0.5], [0.25, 0.5, 4.0]])


def programme(b, tol=1e-5):
    """argmin ½ xᵀ P x − bᵀ x over x ≥ 0, by ADMM."""
    rho = 1.0
    x = z = u = np.zeros(3)
    factor = linalg.cho_factor(P + rho * np.eye(3))
    for _ in range(10_000):
        x = linalg.cho_solve(factor, b + rho * (z - u))
        before, z = z, np.maximum(x + u, 0.0)
        u = u + x - z
        if max(np.abs(x - z).max(), np.abs(z - before).max()) < tol:
            break
    return z


def programme_vjp(ybar, b, tol=1e-5):
    active = programme(b, tol=1e-12) > 0
    out = np.zeros(3)
    out[active] = np.linalg.solve(P[np.ix_(active, active)], ybar[active])
    return out


# 5. The wave equation by leapfrog; the adjoint of the continuous equation.


def wave(c, n=32):
    """∫ u(x, 0.4)² dx of a bump that travels at speed c(x) = c₀ + c₁ sin πx."""
    x = np.linspace(0.0, 1.0, n + 1)
    dt = 0.4 / (n // 2 * 2)
    speed = (c[0] + c[1] * np.sin(np.pi * x)) ** 2
    u = before = np.exp(-80 * (x - 0.5) ** 2)
    for _ in range(n // 2 * 2):
        bend = np.zeros_like(u)
        bend[1:-1] = (u[2:] - 2 * u[1:-1] + u[:-2]) * n * n
        u, before = 2 * u - before + dt * dt * speed * bend, u
        u[0] = u[-1] = 0.0
    return float(np.sum(u * u) / n * (1 + 0.1 * c[0]))


def _wave_fields(c, n):
    x = np.linspace(0.0, 1.0, n + 1)
    steps = n // 2 * 2
    dt = 0.4 / steps
    speed = (c[0] + c[1] * np.sin(np.pi * x)) ** 2

    def bent(u):
        out = np.zeros_like(u)
        out[1:-1] = (u[2:] - 2 * u[1:-1] + u[:-2]) * n * n
        return out

    path = [np.exp(-80 * (x - 0.5) ** 2)] * 2
    for _ in range(steps):
        u = 2 * path[-1] - path[-2] + dt * dt * speed * bent(path[-1])
        u[0] = u[-1] = 0.0
        path.append(u)
    return x, dt, speed, bent, path


def wave_gradient(c, n=32):
    """λ_tt = (c² λ)_xx with λ(T) = 0, λ_t(T) = −2u; dJ/dc = ∬ 2 c λ u_xx."""
    x, dt, speed, bent, path = _wave_fields(c, n)
    base = 1 + 0.1 * c[0]
    lam, after = np.zeros_like(x), np.zeros_like(x)
    lam = dt * 2 * path[-1] * base
    shapes = np.stack([np.ones_like(x), np.sin(np.pi * x)])
    root = c[0] + c[1] * np.sin(np.pi * x)
    out = np.zeros(2)
    for u in reversed(path[1:-1]):
        out += (shapes * (2 * root * lam * bent(u))).sum(axis=1) * dt / len(x)
        lam, after = 2 * lam - after + dt * dt * bent(speed * lam), lam
        lam[0] = lam[-1] = 0.0
    out[0] += 0.1 * float(np.sum(path[-1] ** 2) / (len(x) - 1))
    return out


# 6. A measured characteristic, looked up in a table by a cubic spline.

KNOTS = np.linspace(0.0, 4.0, 17)
TABLE = interpolate.CubicSpline(KNOTS, np.tanh(KNOTS - 2) + 0.05 * np.sin(9 * KNOTS))


def lookup(x):
    return TABLE(x)


def lookup_vjp(ybar, x):
    return ybar * TABLE(x, 1)


def lookup_linear(x):
    return np.interp(x, KNOTS, TABLE(KNOTS))


def lookup_linear_vjp(ybar, x):
    k = np.clip(np.searchsorted(KNOTS, x) - 1, 0, len(KNOTS) - 2)
    rise = np.diff(TABLE(KNOTS)) / np.diff(KNOTS)
    return ybar * rise[k]


# 7. A Monte Carlo price with a fixed seed; pathwise derivatives.


def price(m, paths=4000):
    """Mean of exp(−r) max(S − 1, 0) with S = s exp(r − σ²/2 + σ Z); m = (s, σ, r)."""
    z = np.random.default_rng(7).standard_normal(paths)
    end = m[0] * np.exp(m[2] - 0.5 * m[1] ** 2 + m[1] * z)
    return float(np.exp(-m[2]) * np.maximum(end - 1.0, 0.0).mean())


def price_gradient(m, paths=4000):
    z = np.random.default_rng(7).standard_normal(paths)
    end = m[0] * np.exp(m[2] - 0.5 * m[1] ** 2 + m[1] * z)
    above = end > 1.0
    discount = np.exp(-m[2])
    return np.array(
        [
            discount * (above * end / m[0]).mean(),
            discount * (above * end * (z - m[1])).mean(),
            discount * ((above * end).mean() - np.maximum(end - 1.0, 0.0).mean()),
        ]
    )


# 8. The Lorenz system, long enough to be chaotic; its discrete tangent map is exact.


def lorenz(p, n=1000):
    x = np.array([1.0, 1.0, 20.0])
    for _ in range(n):
        x = x + 0.01 * np.array(
            [
                p[0] * (x[1] - x[0]),
                x[0] * (p[1] - x[2]) - x[1],
                x[0] * x[1] - p[2] * x[2],
            ]
        )
    return x


def lorenz_jacobian(p, n=1000):
    x, d = np.array([1.0, 1.0, 20.0]), np.zeros((3, 3))
    for _ in range(n):
        by_x = np.array(
            [[-p[0], p[0], 0.0], [p[1] - x[2], -1.0, -x[0]], [x[1], x[0], -p[2]]]
        )
        by_p = np.array([[x[1] - x[0], 0, 0], [0, x[0], 0], [0, 0, -x[2]]])
        d = d + 0.01 * (by_x @ d + by_p)
        x = x + 0.01 * np.array(
            [
                p[0] * (x[1] - x[0]),
                x[0] * (p[1] - x[2]) - x[1],
                x[0] * x[1] - p[2] * x[2],
            ]
        )
    return d


# 9. An equilibrium found by minimising an energy; implicit differentiation.


def _energy(x, q):
    stretch = np.diff(np.concatenate([[0.0], x, [4.0]])) - 1.0
    return 0.5 * np.sum(stretch**2) + 0.25 * np.sum(stretch**4) + q @ np.sin(x)


def equilibrium(q, gtol=1e-7):
    return optimize.minimize(
        _energy, np.array([1.0, 2.0, 3.0]), args=(q,), method="BFGS",
        jac=_slope, options={"gtol": gtol},
    ).x  # fmt: skip


def _slope(x, q):
    stretch = np.diff(np.concatenate([[0.0], x, [4.0]])) - 1.0
    tension = stretch + stretch**3
    return tension[:-1] - tension[1:] + q * np.cos(x)


def equilibrium_vjp(ybar, q, gtol=1e-7):
    x = equilibrium(q, gtol)
    stretch = np.diff(np.concatenate([[0.0], x, [4.0]])) - 1.0
    stiff = 1 + 3 * stretch**2
    hessian = np.diag(stiff[:-1] + stiff[1:] - q * np.sin(x))
    hessian -= np.diag(stiff[1:-1], 1) + np.diag(stiff[1:-1], -1)
    return -np.cos(x) * np.linalg.solve(hessian, ybar)


# 10. Diffusion, implicit in time, each step solved by conjugate gradients.


def _laplace(n):
    return (2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)) * (n + 1) ** 2


def _conjugate(a, b, tol):
    x, r = np.zeros_like(b), b.copy()
    p, rho = r.copy(), float(r @ r)
    while rho > tol**2 * float(b @ b):
        ap = a @ p
        alpha = rho / float(p @ ap)
        x, r = x + alpha * p, r - alpha * ap
        rho, last = float(r @ r), rho
        p = r + rho / last * p
    return x


def diffusion(u, tol=1e-7):
    a = np.eye(len(u)) + 0.002 * _laplace(len(u))
    for _ in range(5):
        u = _conjugate(a, u, tol)
    return u**2


def diffusion_vjp(ybar, u, tol=1e-7):
    a = np.eye(len(u)) + 0.002 * _laplace(len(u))
    end = u
    for _ in range(5):
        end = _conjugate(a, end, tol)
    w = 2 * end * ybar
    for _ in range(5):
        w = _conjugate(a, w, tol)
    return w


_newton = Newton()

SYSTEMS = {
    "adaptive ODE": (
        populations, "vjp", populations_vjp, np.array([1.1, 0.75, 0.9]),
        {"refine": {"rtol": [1e-3, 1e-5, 1e-7]}},
    ),
    "warm-started Newton": (
        _newton, "vjp", _newton.vjp, np.array([[1.5, 0.75, 2.25], [1.0, 2.0, -0.5]]),
        {"reset": _newton.reset},
    ),
    "contact with friction": (
        sliding, "jacobian", sliding_jacobian, np.array([1.6, 40.0]), {},
    ),
    "splitting stopped early": (
        programme, "vjp", programme_vjp, np.array([1.0, -0.75, 2.0]),
        {"refine": {"tol": [1e-3, 1e-5, 1e-8]}},
    ),
    "wave, continuous adjoint": (
        wave, "gradient", wave_gradient, np.array([0.6, 0.2]),
        {"refine": {"n": [32, 64, 128]}},
    ),
    "spline table": (
        lookup, "vjp", lookup_vjp, np.array([0.3, 1.7, 2.2, 3.1]), {},
    ),
    "linear table": (
        lookup_linear, "vjp", lookup_linear_vjp, np.array([0.3, 1.7, 2.2, 3.1]), {},
    ),
    "Monte Carlo, fixed seed": (
        price, "gradient", price_gradient, np.array([1.05, 0.3, 0.02]), {},
    ),
    "chaotic": (
        lorenz, "jacobian", lorenz_jacobian, np.array([10.0, 28.0, 8 / 3]), {},
    ),
    "equilibrium": (
        equilibrium, "vjp", equilibrium_vjp, np.array([0.2, -0.3, 0.25]), {},
    ),
    "diffusion by conjugate gradients": (
        diffusion, "vjp", diffusion_vjp, np.linspace(0.2, 1.4, 9) ** 2, {},
    ),
}  # fmt: skip
