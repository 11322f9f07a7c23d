"""The official Python clients' own tests, as their source distributions have them, against the gateway.

`tests/clients/run suites` starts this; it is no part of the usual run. The tests expect a mock that accepts every request of the
APIs' descriptions, made-up values included. Here they get a gateway with simulated providers. A test may fail for a reason of
REASONS only, each of which is a refusal on purpose; every other failure is one of this program. The Node clients have no tests in
their packages.

    suites.py DIRECTORY BINARY
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as XML
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from harness import Checks, expect

INSTALLED, BINARY = Path(sys.argv[1]) / "suites", sys.argv[2]
HERE = Path(__file__).parent
KEY = "sk-suites-0123456789abcdef"
TOOLS = ["pytest==9.2.0", "pytest-asyncio==1.5.0", "pytest-xdist==3.8.0", "inline-snapshot", "respx", "dirty-equals"]
TOOLS += ["time-machine", "rich", "http-snapshot[httpx]==0.1.9", "opentelemetry-sdk", "httpx-aiohttp"]
# What the gateway serves: the path below the client's address, and the files of the client's tests.
SUITES = {
    "openai": ("/v1", ["chat/test_completions", "test_responses", "test_embeddings", "test_images", "test_models"]),
    "openai completions": ("/v1", ["test_completions"]),
    "anthropic": ("/api", ["test_messages", "test_models", "beta/test_messages", "beta/test_models"]),
}
REASONS = {
    r"This path does not exist|This path answers": "a path that the gateway does not serve: kept objects, edits of images, DELETE",
    r"Field 'model' is required|Missing required parameter: 'model'": "the request names no model",
    r"must be (an integer of )?at least 1": "a limit of 0 tokens or 0 answers",
    r"Responses are not kept here|keeps no conversations": "an earlier answer or conversation, which the gateway does not keep",
    r"Images are not streamed": "a stream of images",
    r"data\.0\.embedding": "the client asks for base64, and in its strict mode refuses it",
    r"is not the id of a listed model": "a page of models after one that does not exist",
    r"does not support 'inference_geo'": "a region that does not exist",
}
MODELS = {
    "suite/chat": ("sim-chat", "small", "text", ["gpt-6-astra", "model"]),
    "suite/claude": ("sim-claude", "claude-opus-5-5", "text", ["model_id"]),
    "suite/images": ("sim-chat", "canvas", "image", ["gpt-image-1.5", "gpt-image-2.5-flare"]),
    "suite/vectors": ("sim-chat", "vectors", "embeddings", ["text-embedding-3-small"]),
}

checks = Checks("suites")


class Completions(BaseHTTPRequestHandler):
    """Serves the deprecated completions, which no simulated provider does."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        choice = {"index": 0, "text": " there", "logprobs": None, "finish_reason": "stop"}
        usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
        head = {"id": "cmpl-1", "object": "text_completion", "created": 1_700_000_000, "model": asked["model"]}
        answer = json.dumps(head | {"choices": [choice], "usage": usage})
        if asked.get("stream"):
            answer = f"data: {answer}\n\ndata: [DONE]\n\n"
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if asked.get("stream") else "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer.encode())


def installed() -> Path:
    """A place with the clients of requirements.txt, their sources and what their tests need."""
    pinned = (HERE / "requirements.txt").read_text()
    clients = re.findall(r"^(?:openai|anthropic)==\S+$", pinned, re.M)
    mark = INSTALLED / "installed"
    if not mark.exists() or mark.read_text() != f"{clients} {TOOLS}":
        subprocess.run([sys.executable, "-m", "venv", "--clear", INSTALLED], check=True)
        pip = [INSTALLED / "bin" / "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--no-deps", "-r", HERE / "requirements.txt"], check=True)
        subprocess.run([*pip, "install", *TOOLS], check=True)
        sources = ["download", "--no-deps", "--no-binary", "openai,anthropic", "--dest", INSTALLED / "sources", *clients]
        subprocess.run([*pip, *sources], check=True)
        for archive in (INSTALLED / "sources").glob("*.tar.gz"):
            subprocess.run(["tar", "-xzf", archive, "-C", INSTALLED / "sources"], check=True)
        mark.write_text(f"{clients} {TOOLS}")
    return INSTALLED


def configuration(completions: int | None) -> str:
    keys = '[auth]\ndevelopment_key_enabled = false\n[[keys]]\nname = "suites"\nenv = "SUITES_KEY"\n'
    if completions:
        return f"""{keys}aliases = {{ "gpt-3.5-turbo-instruct" = "suite/old" }}
[providers.old]
base_url = "http://127.0.0.1:{completions}/v1"
legacy_completions = true
[[models]]
id = "suite/old"
context_length = 8192
supported_parameters = ["max_tokens"]
usd_per_million = {{ prompt = "1", completion = "1" }}
endpoints = [{{ provider = "old", upstream_model = "gpt-3.5-turbo-instruct" }}]
"""
    aliases = ", ".join(f'"{alias}" = "{model}"' for model, (*_, aliases) in MODELS.items() for alias in aliases)
    text = f'{keys}aliases = {{ {aliases} }}\n[messages]\nmodels = {{ "claude-*" = "suite/claude" }}\n[simulation]\nmode = "on"\n'
    for name, dialect in (("sim-chat", "openai"), ("sim-claude", "anthropic")):
        text += f'[simulation.providers.{name}]\ndialect = "{dialect}"\nttft = "5ms"\ntokens_per_second = 5000\nodd_framing_rate = 0\n'
    for model, (provider, name, modality, _) in MODELS.items():
        text += f"""[[models]]
id = "{model}"
context_length = 200000
output_modalities = ["{modality}"]
supported_parameters = ["max_tokens", "temperature", "tools", "tool_choice", "reasoning", "response_format", "structured_outputs"]
usd_per_million = {{ prompt = "1", completion = "1" }}
usd_each = {{ image = "0.01" }}
endpoints = [{{ provider = "{provider}", upstream_model = "{name}" }}]
"""
    return text


def start_gateway(work: Path, completions: int | None) -> tuple[subprocess.Popen, str]:
    (work / "gateway.toml").write_text(configuration(completions))
    environment = {
        "SUITES_KEY": KEY,
        "POINTSMAN__SERVER__BIND": "127.0.0.1:0",
        "POINTSMAN__SERVER__LEGACY_COMPLETIONS": "true",
        "POINTSMAN__ADMIN__BIND": "",
        "POINTSMAN__LEDGER__DATA_DIR": str(work / "data"),
    }
    out = work / "gateway.log"
    gateway = subprocess.Popen([BINARY, "--config", work / "gateway.toml"], env=environment, stdout=out.open("w"), stderr=subprocess.STDOUT)
    for _ in range(300):
        if found := re.search(r"http://127\.0\.0\.1:\d+", out.read_text()):
            return gateway, found[0]
        time.sleep(0.1)
    raise SystemExit(f"the gateway did not start:\n{out.read_text()}")


def run(work: Path, client: str, url: str, files: list[str]) -> None:
    """Runs the tests of one client and reads what became of each."""
    (sources,) = (installed() / "sources").glob(f"{client}-*/")
    tests = sources / "tests" / "conftest.py"
    tests.write_text(re.sub(r'^api_key = ".*"$', f'api_key = "{KEY}"', tests.read_text(), flags=re.M))
    report = work / "report.xml"
    command = [installed() / "bin" / "python", "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", f"--junitxml={report}"]
    command += [f"tests/api_resources/{file}.py" for file in files]
    subprocess.run(command, cwd=sources, env={**os.environ, "TEST_API_BASE_URL": url}, stdout=subprocess.DEVNULL)
    passed, refused, unexpected = 0, Counter(), []
    for case in XML.parse(report).iter("testcase"):
        said = [node.get("message", "") + (node.text or "") for node in case if node.tag in ("failure", "error")]
        reason = next((reason for pattern, reason in REASONS.items() if said and re.search(pattern, said[0])), None)
        if not said:
            passed += 1
        elif reason:
            refused[reason] += 1
        else:
            unexpected.append(f"{case.get('name')}: {said[0].strip().splitlines()[-1][:300]}")
    print(f"{client}: {passed} tests passed, {sum(refused.values())} were refused on purpose", flush=True)
    for reason, count in refused.most_common():
        print(f"    {count:3}  {reason}")
    expect(passed and not unexpected, "\n".join([f"{len(unexpected)} unexpected failures", *unexpected[:10]]))


old = ThreadingHTTPServer(("127.0.0.1", 0), Completions)
threading.Thread(target=old.serve_forever, daemon=True).start()
for suite, (path, files) in SUITES.items():
    with tempfile.TemporaryDirectory(prefix="pointsman-suites-") as folder:
        gateway, url = start_gateway(Path(folder), old.server_port if "completions" in suite else None)
        try:
            what = f"the tests of {suite}: every failure is a refusal on purpose"
            checks.check(what, lambda: run(Path(folder), suite.split()[0], f"{url}{path}", files))
        finally:
            gateway.terminate()
            gateway.wait(20)
checks.finish()
