"""The estimators of `oracle estimate` against those of the Open Bandit Pipeline and of coba, on the same logs.

    check.py <oracle> <directory for the logs> [<directory with tables of real outcomes>]

The logs are an example by hand, random ones, and those that `oracle logs` draws from outcomes of which all are known.
"""

import subprocess
import sys
import sysconfig
import types
from pathlib import Path

import numpy as np
from coba.environments import OpeRewards
from coba.learners import vowpal
from coba.utilities import PackageChecker

# The package as a whole imports torch and more; its estimators need none of it.
sys.modules["torch"] = types.ModuleType("torch")
sys.modules["torch"].Tensor = sys.modules["torch"].tensor = object
for name in ("obp", "obp.ope"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [str(Path(sysconfig.get_paths()["purelib"], *name.split(".")))]

from obp.ope.estimators import (  # noqa: E402
    DirectMethod,
    DoublyRobust,
    InverseProbabilityWeighting,
    SelfNormalizedInverseProbabilityWeighting,
)

TOLERANCE = 1e-9


class Logged:
    """In the place of the regression that coba learns by itself: it predicts what stands in the log."""

    def init_learner(self, args, label_type):
        pass

    def make_example(self, features, label=None):
        return features

    def learn(self, example):
        pass

    def predict(self, example):
        return example["x"][example["a"]]


vowpal.VowpalMediator = Logged
PackageChecker.vowpalwabbit = staticmethod(lambda *_: None)


def by_hand():
    """The example of the documentation: the other policy always chooses the second."""
    q = np.tile([3.5, 1.5], (4, 1))
    pi = np.tile([0.0, 1.0], (4, 1))
    return np.array([1, 0, 1, 0]), np.array([0.5, 0.5, 0.25, 0.75]), np.array([2.0, 4.0, 1.0, 3.0]), q, pi


def drawn(seed):
    """A log of a random policy, with rewards that may be far from what is predicted."""
    dice = np.random.default_rng(seed)
    requests, arms = int(dice.integers(50, 3_000)), int(dice.integers(2, 9))
    logging = dice.dirichlet(np.ones(arms), requests) * 0.9 + 0.1 / arms
    pi = dice.dirichlet(np.ones(arms) * dice.choice([0.05, 1.0]), requests)
    action = (logging.cumsum(axis=1) < dice.random((requests, 1))).sum(axis=1).clip(0, arms - 1)
    q = dice.lognormal(-5.0, 1.0, (requests, arms))
    reward = q[np.arange(requests), action] * dice.lognormal(0.2, 0.7, requests)
    return action, logging[np.arange(requests), action], reward, q, pi


def read(path):
    """A log as `oracle logs` writes it."""
    rows = np.loadtxt(path, delimiter=",", skiprows=1)
    arms = (rows.shape[1] - 3) // 2
    return rows[:, 0].astype(int), rows[:, 1], rows[:, 2], rows[:, 3 : 3 + arms], rows[:, 3 + arms :]


def written(oracle, directory, quality):
    subprocess.run([oracle, "logs", directory, *(["--quality", quality] if quality else [])], check=True)
    return [(path.stem, read(path)) for path in sorted(directory.glob("*.csv"))]


def theirs(action, p, reward, q, pi):
    given = {
        "reward": reward,
        "action": action,
        "pscore": p,
        "action_dist": pi[:, :, None],
        "estimated_rewards_by_reg_model": q[:, :, None],
        "position": np.zeros(len(reward), dtype=int),
    }
    return {
        "ips": InverseProbabilityWeighting().estimate_policy_value(**given),
        "snips": SelfNormalizedInverseProbabilityWeighting().estimate_policy_value(**given),
        "dr": DoublyRobust().estimate_policy_value(**given),
        "dm": DirectMethod().estimate_policy_value(**given),
    }


def cobas(action, p, reward, q, pi):
    """coba has no self-normalised estimate."""
    log = [
        {"context": q[n].tolist(), "action": int(one), "reward": float(reward[n]), "probability": float(p[n])}
        for n, one in enumerate(action)
    ]

    def value(kind):
        rewards = (interaction["rewards"] for interaction in OpeRewards(kind).filter(log))
        return np.mean([sum(of(arm) * share for arm, share in enumerate(row)) for of, row in zip(rewards, pi.tolist())])

    return {"ips": value("IPS"), "dr": value("DR"), "dm": value("DM")}


def ours(oracle, path, action, p, reward, q, pi):
    arms = range(q.shape[1])
    header = ["choice", "p", "reward", *(f"q{arm}" for arm in arms), *(f"pi{arm}" for arm in arms)]
    rows = ([str(one), *map(repr, map(float, (p[n], reward[n], *q[n], *pi[n])))] for n, one in enumerate(action))
    path.write_text("\n".join(map(",".join, [header, *rows])) + "\n")
    printed = subprocess.run([oracle, "estimate", path], check=True, capture_output=True, text=True).stdout
    return {name: float(value) for name, value in map(str.split, printed.splitlines())}


def main():
    oracle, directory = sys.argv[1], Path(sys.argv[2])
    passed = failed = 0
    real = directory / "logs"
    real.mkdir(exist_ok=True)
    drawn_here = [(f"seed {seed}", drawn(seed)) for seed in range(24)]
    for name, log in [("by hand", by_hand()), *drawn_here, *written(oracle, real, *sys.argv[3:4] or [None])]:
        mine = ours(oracle, directory / "log.csv", *log)
        for library, figures in [("obp", theirs(*log)), ("coba", cobas(*log))]:
            for figure, value in figures.items():
                if abs(mine[figure] - value) <= TOLERANCE * max(1.0, abs(value)):
                    passed += 1
                else:
                    failed += 1
                    print(f"FAILED  {name}: {figure} is {mine[figure]!r} here and {value!r} in {library}")
    print(f"estimators: {passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


main()
