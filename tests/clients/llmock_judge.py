"""Puts the gateway in front of two LLMocks (https://github.com/JulienRabault/LLMock) that break on demand, calls it with the official
OpenAI client and its default retries, and lets LLMock judge how the gateway behaved as their client.

`llmock_judge.py <binary of the gateway> <folder> <llmock> [factor]` makes so many times the calls of each soak, a third of them not
streamed. `--direct` calls one LLMock without the gateway instead, for comparison. Beside the checks it prints the table of
docs/ROUTING.md. `LLMOCK_SOAKS="mixed quota"` chooses.
"""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request

from harness import Checks, expect, same
from openai import APIStatusError, OpenAI

WORKERS = 8
KEY = "sk-pointsman-development"
# What LLMock does, the number of calls, and the share that must be good: all but what chance may take once in a million runs.
# A stream that breaks after its first content cannot be repeated by a gateway: such a call is told as failed, and counted apart.
SOAKS = {
    "429": (["--error-rate", "429=0.1"], 100, 0.95),
    "503": (["--error-rate", "503=0.1"], 100, 0.95),
    "500": (["--error-rate", "500=0.1"], 100, 0.95),
    "mixed": (
        ["--error-rate", "500=0.1", "--error-rate", "503=0.05", "--error-rate", "429=0.1"]
        + ["--stream-fault", "disconnect=0.05", "--stream-fault", "truncate=0.05", "--stream-fault", "malformed=0.05"],
        100,
        0.92,
    ),
    # A burst of 240 is saved up, the others come at four a second.
    "quota": (["--rpm", "120"], 280, 0.95),
}
# Findings of LLMock's that no client behind the gateway may cause. `truncated_stream_accepted` is checked here instead, by what
# the client saw: LLMock calls it accepted unless the same request comes again, and after content none does.
FORBIDDEN = {"retry_after_ignored", "retried_non_retryable", "retry_storm"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def fetched(url: str):
    with urllib.request.urlopen(url, timeout=5) as answer:
        return answer.read()


def reached(url: str, process) -> None:
    """Waits until something answers there."""
    for _ in range(600):
        with contextlib.suppress(OSError):
            return fetched(url) and None
        expect(process.poll() is None, f"{process.args[0]} has ended")
        time.sleep(0.05)
    raise AssertionError(f"nothing answers at {url}")


@contextlib.contextmanager
def running(command, url: str, log: pathlib.Path, environment=None):
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, **(environment or {})})
    try:
        reached(url, process)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()


def configuration(ports) -> str:
    text = "\n".join(
        f'[providers.mock{n}]\nname = "Mock {n}"\nbase_url = "http://127.0.0.1:{port}/v1"\n' for n, port in enumerate(ports)
    )
    endpoints = "\n".join(
        f'[[models.endpoints]]\nprovider = "mock{n}"\nupstream_model = "gpt-4o"\ndialect = "openai"' for n in range(len(ports))
    )
    return f"""{text}
[[models]]
id = "two/chat"
name = "Two: Chat"
created = 2001-01-01
context_length = 100000
supported_parameters = ["max_tokens", "temperature"]
usd_per_million = {{ prompt = "1", completion = "1" }}
{endpoints}
"""


class Tally:
    """How the calls of a soak ended."""

    def __init__(self) -> None:
        self.good = self.broken = self.refused = self.silent = 0
        self.reasons: dict[str, int] = {}
        self.lock = threading.Lock()

    def count(self, kind: str, reason: str = "") -> None:
        with self.lock:
            setattr(self, kind, getattr(self, kind) + 1)
            if reason:
                self.reasons[reason] = self.reasons.get(reason, 0) + 1

    @property
    def calls(self) -> int:
        return self.good + self.broken + self.refused + self.silent


def call(client: OpenAI, model: str, number: int, tally: Tally) -> None:
    messages = [{"role": "user", "content": f"Call number {number}"}]
    if number % 3 == 0:
        try:
            answer = client.chat.completions.create(model=model, messages=messages)
            tally.count("good" if answer.choices[0].finish_reason == "stop" else "silent")
        except Exception as fault:  # whatever it is, the call failed and said so
            tally.count("refused", named(fault))
        return
    content = finish = None
    try:
        for chunk in client.chat.completions.create(model=model, messages=messages, stream=True):
            for choice in chunk.choices:
                content = choice.delta.content or content
                finish = choice.finish_reason or finish
        tally.count("good" if finish == "stop" else "silent")
    except Exception as fault:
        tally.count("broken" if content else "refused", named(fault))


def named(fault: Exception) -> str:
    if isinstance(fault, APIStatusError):
        body = fault.body if isinstance(fault.body, dict) else {}
        return f"{fault.status_code} {(body.get('metadata') or {}).get('reason') or body.get('code')}"
    return type(fault).__name__


def soak(faults, gateway: str, folder: pathlib.Path, llmock: str, calls: int, direct: bool):
    """Makes the calls. The tally, the seconds they took, and LLMock's findings."""
    tally = Tally()
    ports = [free_port() for _ in range(1 if direct else 2)]
    with contextlib.ExitStack() as stack:
        for port in ports:
            command = [llmock, "serve", "--port", str(port), "--log-level", "warning", *faults]
            stack.enter_context(running(command, f"http://127.0.0.1:{port}/health", folder / f"llmock-{port}.log"))
        base, model = f"http://127.0.0.1:{ports[0]}/v1", "gpt-4o"
        if not direct:
            port, model = free_port(), "two/chat"
            (folder / "llmock.toml").write_text(configuration(ports))
            environment = {
                "POINTSMAN__SERVER__BIND": f"127.0.0.1:{port}",
                "POINTSMAN__ADMIN__BIND": "",
                "POINTSMAN__LEDGER__DATA_DIR": str(folder / f"llmock-data-{port}"),
            }
            command = [gateway, "--config", str(folder / "llmock.toml")]
            url = f"http://127.0.0.1:{port}/health"
            stack.enter_context(running(command, url, folder / f"llmock-gateway-{port}.log", environment))
            base = f"http://127.0.0.1:{port}/api/v1"
        client = OpenAI(base_url=base, api_key=KEY)
        began = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
            list(pool.map(lambda number: call(client, model, number, tally), range(calls)))
        took = time.monotonic() - began
        verdicts = [json.loads(fetched(f"http://127.0.0.1:{port}/_llmock/verdict")) for port in ports]
    return tally, took, [finding for verdict in verdicts for finding in verdict["findings"]]


def main() -> None:
    arguments = [argument for argument in sys.argv[1:] if argument != "--direct"]
    direct = "--direct" in sys.argv
    gateway, folder, llmock = arguments[0], pathlib.Path(arguments[1]), arguments[2]
    factor = float(arguments[3]) if len(arguments) > 3 else 1
    named_soaks = re.findall(r"\w+", os.environ.get("LLMOCK_SOAKS", "")) or list(SOAKS)
    folder.mkdir(parents=True, exist_ok=True)
    checks = Checks("llmock")

    def check(name: str) -> None:
        faults, calls, least = SOAKS[name]
        tally, took, findings = soak(faults, gateway, folder, llmock, int(calls * factor), direct)
        codes = sorted({finding["code"] for finding in findings})
        # A stream that broke after its first content is nobody's to repair.
        curable = tally.calls - tally.broken
        print(
            f"| {name} | {tally.calls} | {tally.good / tally.calls:.1%} | {tally.good / max(curable, 1):.1%} | {tally.broken} "
            f"| {tally.refused} | {tally.silent} | {took:.1f} s | {', '.join(codes)} | {tally.reasons} |",
            flush=True,
        )
        if direct:
            return
        same(tally.silent, 0, "the number of answers cut in silence")
        same([code for code in codes if code in FORBIDDEN], [], "what LLMock found wrong")
        expect(tally.good >= least * curable, f"{tally.good} of {curable} calls are good, {tally.reasons}")

    print("| soak | calls | good | good of those not broken off | broken off | refused | cut in silence | took | findings | faults |")
    for name in named_soaks:
        checks.check(f"{name}: nothing is ignored, stormed or cut in silence, and the calls are good", lambda: check(name))
    checks.finish()


main()
