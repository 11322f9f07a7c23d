"""The gateway in front of a server of every dialect that nobody here wrote: LiteLLM's proxy.

`tests/clients/run foreign` starts this; it is no part of the usual run, because the proxy takes 700 MB. The proxy serves
the chat, Messages, Gemini and Responses APIs, and translates all of them to scripted_provider.py. One gateway has a model
at each of the four; what the official clients get must be the same whichever served.

    foreign.py DIRECTORY BINARY PROVIDER_URL
"""

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import anthropic
import openai

from harness import Checks, expect, same

INSTALLED, BINARY, PROVIDER = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
LITELLM = "litellm[proxy]==1.108.6"
PROXY_KEY = "sk-litellm-0123456789"
KEY = "sk-pointsman-development"
# The dialect of the gateway's provider, and the path below which the proxy serves it.
DIALECTS = {"openai": "/v1", "anthropic": "/v1", "gemini": "/v1beta", "openai-responses": "/v1"}
READ = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TASK = "READ-FILE /yard/cargo.txt"

checks = Checks("foreign")


def told(text: str) -> str:
    """What a tool said. Results of the Gemini API are objects, which the proxy hands on as JSON."""
    return re.sub(r'\{"output": "(.*)"\}', r"\1", text)


def installed() -> Path:
    at = INSTALLED / "litellm-proxy"
    if not (at / "installed").exists() or (at / "installed").read_text() != LITELLM:
        subprocess.run([sys.executable, "-m", "venv", "--clear", at], check=True)
        subprocess.run([at / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", LITELLM], check=True, timeout=900)
        (at / "installed").write_text(LITELLM)
    return at / "bin" / "litellm"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(url: str, process: subprocess.Popen, log: Path) -> None:
    for _ in range(900):
        try:
            urllib.request.urlopen(url, timeout=1)
            return
        except OSError:
            if process.poll() is not None:
                break
            time.sleep(0.1)
    raise SystemExit(f"{url} did not answer:\n{log.read_text()[-3000:]}")


def start_proxy(work: Path) -> tuple[subprocess.Popen, int]:
    port = free_port()
    model = {"model": "lm_studio/agent", "api_base": PROVIDER, "api_key": "sk-none"}
    config = {
        "model_list": [{"model_name": "yard", "litellm_params": model}],
        "general_settings": {"master_key": PROXY_KEY},
        "litellm_settings": {"telemetry": False},
    }
    (work / "proxy.json").write_text(json.dumps(config))
    log = work / "proxy.log"
    environment = {"PATH": os.environ["PATH"], "HOME": str(work), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    command = [installed(), "--config", work / "proxy.json", "--host", "127.0.0.1", "--port", str(port)]
    proxy = subprocess.Popen(command, cwd=work, env=environment, stdout=log.open("w"), stderr=subprocess.STDOUT)
    wait_for(f"http://127.0.0.1:{port}/health/liveliness", proxy, log)
    return proxy, port


def start_gateway(work: Path, proxy_port: int) -> tuple[subprocess.Popen, str]:
    config = ""
    for dialect, path in DIALECTS.items():
        config += f"""
[providers.{dialect}]
base_url = "http://127.0.0.1:{proxy_port}{path}"
api_key_env = "PROXY_KEY"
dialect = "{dialect}"
[[models]]
id = "foreign/{dialect}"
context_length = 100000
supported_parameters = ["max_tokens", "tools", "tool_choice", "temperature", "stop"]
usd_per_million = {{ prompt = "1", completion = "1" }}
endpoints = [{{ provider = "{dialect}", upstream_model = "yard" }}]
"""
    (work / "gateway.toml").write_text(config)
    environment = {
        "PROXY_KEY": PROXY_KEY,
        "POINTSMAN__SERVER__BIND": "127.0.0.1:0",
        "POINTSMAN__ADMIN__BIND": "",
        "POINTSMAN__LEDGER__DATA_DIR": str(work / "data"),
    }
    out = work / "gateway.log"
    command = [BINARY, "--config", work / "gateway.toml"]
    gateway = subprocess.Popen(command, env=environment, stdout=out.open("w"), stderr=subprocess.STDOUT)
    for _ in range(300):
        if found := re.search(r"http://127\.0\.0\.1:\d+", out.read_text()):
            return gateway, found[0]
        time.sleep(0.1)
    raise SystemExit(f"the gateway did not start:\n{out.read_text()}")


def by_chat(url: str, model: str, stream: bool) -> tuple:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)
    tool = {"type": "function", "function": {"name": "read_file", "parameters": READ}}
    turns = [{"role": "user", "content": TASK}]

    def ask():
        request = {"model": model, "messages": turns, "tools": [tool], "max_tokens": 500}
        if not stream:
            return client.chat.completions.create(**request).choices[0]
        with client.chat.completions.stream(**request, stream_options={"include_usage": True}) as events:
            whole = events.get_final_completion()
        expect(whole.usage and whole.usage.total_tokens > 0, f"no usage: {whole}")
        return whole.choices[0]

    first = ask()
    (call,) = first.message.tool_calls
    turns.append(json.loads(first.message.model_dump_json(include={"role", "content", "tool_calls"}, exclude_none=True)))
    turns.append({"role": "tool", "tool_call_id": call.id, "content": "Forty crates."})
    last = ask()
    return (first.finish_reason, call.function.name, json.loads(call.function.arguments), last.finish_reason, told(last.message.content))


def by_messages(url: str, model: str, stream: bool) -> tuple:
    client = anthropic.Anthropic(base_url=url, api_key=KEY, max_retries=0)
    turns = [{"role": "user", "content": TASK}]

    def ask():
        request = {
            "model": model,
            "max_tokens": 500,
            "messages": turns,
            "tools": [{"name": "read_file", "input_schema": READ}],
        }
        if not stream:
            return client.messages.create(**request)
        with client.messages.stream(**request) as events:
            return events.get_final_message()

    first = ask()
    (call,) = (block for block in first.content if block.type == "tool_use")
    turns.append({"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in first.content]})
    turns.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "Forty crates."}]})
    last = ask()
    reasons = {"tool_use": "tool_calls", "end_turn": "stop"}
    text = "".join(block.text for block in last.content if block.type == "text")
    return (reasons[first.stop_reason], call.name, call.input, reasons[last.stop_reason], told(text))


def by_responses(url: str, model: str, stream: bool) -> tuple:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)
    tool = {"type": "function", "name": "read_file", "parameters": READ, "strict": False}
    turns = [{"role": "user", "content": TASK}]

    def ask():
        request = {"model": model, "input": turns, "tools": [tool], "max_output_tokens": 500, "store": False}
        if not stream:
            return client.responses.create(**request)
        with client.responses.stream(**request) as events:
            return events.get_final_response()

    first = ask()
    same(first.status, "completed", "status")
    (call,) = (item for item in first.output if item.type == "function_call")
    turns.extend(json.loads(item.model_dump_json(exclude_none=True)) for item in first.output)
    turns.append({"type": "function_call_output", "call_id": call.call_id, "output": "Forty crates."})
    last = ask()
    same(last.status, "completed", "status")
    return ("tool_calls", call.name, json.loads(call.arguments), "stop", told(last.output_text))


with tempfile.TemporaryDirectory(prefix="pointsman-foreign-") as folder:
    work = Path(folder)
    proxy, proxy_port = start_proxy(work)
    gateway, url = start_gateway(work, proxy_port)
    try:
        wanted = ("tool_calls", "read_file", {"path": "/yard/cargo.txt"}, "stop", "The tool says: Forty crates.")
        for dialect in DIALECTS:
            for client in (by_chat, by_messages, by_responses):
                for stream in (False, True):
                    how = "streamed" if stream else "whole"
                    checks.check(
                        f"{client.__name__[3:]} client, {dialect} upstream, {how}",
                        lambda: same(client(url, f"foreign/{dialect}", stream), wanted, "what the client got"),
                    )
    finally:
        gateway.terminate()
        proxy.terminate()
        gateway.wait(20)
        proxy.wait(20)
        if checks.failed:
            print((work / "gateway.log").read_text()[-3000:], (work / "proxy.log").read_text()[-3000:])
checks.finish()
