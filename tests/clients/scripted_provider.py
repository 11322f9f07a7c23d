"""A provider on loopback that does what the gateway's simulated providers do not: it thinks, answers in the Anthropic
dialect too, refuses on demand, and does what agents are asked to do.

Started by `run` and by `agents`; prints its port on one line and serves until it is ended. What a model does follows
from its name, so no state is left over from other checks but one: `recovering` refuses each text once.

* `thinker`, `claude-…`: thinks before it answers; a thought that comes back altered is a 400
* `limited`: 429; `overloaded`: 503; `recovering`: 503 once for each text, then an answer
* `breaking`: a stream that ends after its first words
* every other name: `READ-FILE <path>` in the last words of a user calls the tool that can read it, and the result comes
  back as words; `WRITE-FILE <name>` without tools answers with the file, as Aider reads it
"""

import itertools
import json
import re
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

THOUGHT = "The left track is free."
SIGNATURE = "c2lnbmVkIGJ5IHRoZSBkZXBvdA=="
# Tools that read files, the best first.
READERS = ["read", "read_file", "view", "exec_command", "shell_command", "shell", "bash", "local_shell"]

numbers = itertools.count(1)
refused: set[str] = set()
lock = threading.Lock()


class Refused(Exception):
    """An answer with another status than 200."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def texts(content) -> str:
    """All texts of a message's content, and of the results of tools in it."""
    if isinstance(content, str):
        return content
    parts = [part for part in content or [] if isinstance(part, dict)]
    return "\n".join(part.get("text") or texts(part.get("content")) for part in parts)


class Conversation:
    """What both dialects say, read for the script."""

    def __init__(self, body: dict, dialect: str) -> None:
        self.model = body["model"]
        messages = body["messages"]
        last = messages[-1]
        self.said = next((texts(turn["content"]) for turn in reversed(messages) if turn["role"] == "user"), "")
        self.results: list[str] = []
        self.schema = None
        if dialect == "anthropic":
            self.thinks = body.get("thinking", {}).get("type", "disabled") != "disabled"
            blocks = last["content"] if isinstance(last["content"], list) else []
            self.results = [texts(block["content"]) for block in blocks if block["type"] == "tool_result"]
            tools = [(tool["name"], tool.get("input_schema", {})) for tool in body.get("tools", [])]
            check_signatures(messages)
            self.schema = (body.get("output_config", {}).get("format") or {}).get("schema")
        else:
            self.thinks = bool(body.get("reasoning") or body.get("reasoning_effort"))
            tail = itertools.takewhile(lambda turn: turn["role"] == "tool", reversed(messages))
            self.results = [texts(turn["content"]) for turn in tail][::-1]
            tools = [(tool["function"]["name"], tool["function"].get("parameters", {})) for tool in body.get("tools", [])]
            check_details(messages)
            self.schema = ((body.get("response_format") or {}).get("json_schema") or {}).get("schema")
        self.tools = dict(tools)
        users = (texts(turn["content"]) for turn in reversed(messages) if turn["role"] == "user")
        self.wanted = next(filter(None, (re.search(r"READ-FILE ([^\s\"']+)", text) for text in users)), None)


def check_signatures(messages: list) -> None:
    blocks = (block for turn in messages if isinstance(turn["content"], list) for block in turn["content"])
    for block in blocks:
        if block["type"] == "thinking" and (block["thinking"], block["signature"]) != (THOUGHT, SIGNATURE):
            raise Refused(400, "Invalid `signature` in `thinking` block")


def check_details(messages: list) -> None:
    for detail in (detail for turn in messages for detail in turn.get("reasoning_details", [])):
        if detail["type"] == "reasoning.encrypted" and detail["data"] != SIGNATURE:
            raise Refused(400, "The encrypted content could not be verified.")


def refuse(talk: Conversation) -> None:
    match talk.model:
        case "limited":
            raise Refused(429, "Too many trains.")
        case "overloaded":
            raise Refused(503, "The yard is full.")
        case "recovering":
            with lock:
                known = talk.said in refused
                refused.add(talk.said)
            if not known:
                raise Refused(503, "Not the first time.")


def remembered(body: dict) -> int:
    """How many thoughts came back."""
    return json.dumps(body["messages"]).count(SIGNATURE)


def script(body: dict, dialect: str) -> list[tuple]:
    """The blocks of the answer: ("thinking", …), ("text", …) and ("call", name, arguments)."""
    talk = Conversation(body, dialect)
    refuse(talk)
    blocks: list[tuple] = []
    if talk.thinks and talk.model.startswith(("thinker", "claude")):
        blocks.append(("thinking", THOUGHT))
    name = next((name for reader in READERS for name in talk.tools if name.lower() == reader), None)
    if talk.results:
        thoughts = f" Thoughts that came back: {remembered(body)}." if talk.thinks else ""
        blocks.append(("text", "The tool says: " + " / ".join(talk.results)[-2000:] + thoughts))
    elif talk.wanted and name:
        blocks += [("text", "Let me look."), ("call", name, arguments(talk.tools[name], talk.wanted[1]))]
    elif "weather" in talk.said and "get_weather" in talk.tools:
        cities = re.findall(r"\b[A-Z][a-z]+\b", talk.said.split(" in ", 1)[-1])
        blocks += [("call", "get_weather", {"city": city}) for city in cities]
    elif talk.schema:
        blocks.append(("text", json.dumps(arguments(talk.schema, "depot"))))
    elif written := re.search(r"WRITE-FILE ([^\s\"']+)", talk.said):
        blocks.append(("text", f"{written[1]}\n```\nwritten by the depot\n```\n"))
    else:
        blocks.append(("text", f"Take the left track. Thoughts that came back: {remembered(body)}."))
    return blocks


def arguments(schema: dict, path: str) -> dict:
    """Arguments by a schema: the path or the command that reads it, and whatever else is required."""
    made = {}
    properties = schema.get("properties", {})
    for name, kind in properties.items():
        if name.lower() in ("file_path", "filepath", "path", "target_file"):
            made[name] = path
        elif name in ("command", "cmd"):
            made[name] = ["cat", path] if kind.get("type") == "array" else f"cat {path}"
        elif name in schema.get("required", []):
            made[name] = {"integer": 1, "number": 1, "boolean": False, "array": [], "object": {}}.get(kind.get("type"), "depot")
    return made


def chat_message(blocks: list[tuple]) -> dict:
    message: dict = {"role": "assistant", "content": "".join(block[1] for block in blocks if block[0] == "text") or None}
    for block in blocks:
        if block[0] == "thinking":
            message["reasoning"] = block[1]
            message["reasoning_details"] = [
                {"type": "reasoning.summary", "summary": block[1], "format": "openai-responses-v1", "index": 0},
                {"type": "reasoning.encrypted", "data": SIGNATURE, "id": "rs_1", "format": "openai-responses-v1", "index": 0},
            ]
        elif block[0] == "call":
            function = {"name": block[1], "arguments": json.dumps(block[2])}
            calls = message.setdefault("tool_calls", [])
            calls.append({"index": len(calls), "id": f"call_{next(numbers)}", "type": "function", "function": function})
    return message


def chat_usage(body: dict) -> dict:
    prompt = len(json.dumps(body)) // 4
    return {"prompt_tokens": prompt, "completion_tokens": 9, "total_tokens": prompt + 9}


def chat_whole(body: dict, blocks: list[tuple]) -> dict:
    message = chat_message(blocks)
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": body["model"],
        "choices": [choice],
        "usage": chat_usage(body),
    }


def chat_events(body: dict, blocks: list[tuple]):
    whole = chat_whole(body, blocks)
    message = whole["choices"][0]["message"]

    def chunk(delta: dict, finish=None, **more) -> bytes:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
        said = {**whole, "object": "chat.completion.chunk", "choices": choices, "usage": None, **more}
        return b"data: " + json.dumps(said).encode() + b"\n\n"

    yield chunk({"role": "assistant", "content": ""})
    if "reasoning" in message:
        yield chunk({"reasoning": message["reasoning"], "reasoning_details": message["reasoning_details"]})
    for piece in pieces(message["content"] or ""):
        yield chunk({"content": piece})
    for call in message.get("tool_calls", []):
        function = call["function"]
        yield chunk({"tool_calls": [{**call, "function": {"name": function["name"], "arguments": ""}}]})
        for piece in pieces(function["arguments"]):
            yield chunk({"tool_calls": [{"index": call["index"], "function": {"arguments": piece}}]})
    yield chunk({}, whole["choices"][0]["finish_reason"])
    yield chunk({}, choices=[], usage=whole["usage"])
    yield b"data: [DONE]\n\n"


def pieces(text: str) -> list[str]:
    return [text[start : start + 12] for start in range(0, len(text), 12)]


def messages_whole(body: dict, blocks: list[tuple]) -> dict:
    content = []
    for block in blocks:
        if block[0] == "thinking":
            content.append({"type": "thinking", "thinking": block[1], "signature": SIGNATURE})
        elif block[0] == "text":
            content.append({"type": "text", "text": block[1]})
        else:
            content.append({"type": "tool_use", "id": f"toolu_{next(numbers)}", "name": block[1], "input": block[2]})
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": "tool_use" if blocks[-1][0] == "call" else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": len(json.dumps(body)) // 4,
            "output_tokens": 9,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        },
    }


def messages_events(body: dict, blocks: list[tuple]):
    whole = messages_whole(body, blocks)

    def event(name: str, **more) -> bytes:
        return f"event: {name}\ndata: {json.dumps({'type': name, **more})}\n\n".encode()

    yield event("message_start", message={**whole, "content": [], "stop_reason": None})
    yield event("ping")
    for index, block in enumerate(whole["content"]):
        deltas: list[dict] = []
        match block["type"]:
            case "thinking":
                start = {**block, "thinking": "", "signature": ""}
                deltas += [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"])]
                deltas.append({"type": "signature_delta", "signature": block["signature"]})
            case "text":
                start = {**block, "text": ""}
                deltas += [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
            case _:
                start = {**block, "input": {}}
                given = json.dumps(block["input"])
                deltas += [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(given)]
        yield event("content_block_start", index=index, content_block=start)
        for delta in deltas:
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    ending = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield event("message_delta", delta=ending, usage=whole["usage"])
    yield event("message_stop")


class Handler(BaseHTTPRequestHandler):
    """One connection of the gateway."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        dialect = "anthropic" if self.path.startswith("/v1/messages") else "openai"
        if RECORD:
            with open(RECORD, "a", encoding="utf-8") as file:
                file.write(json.dumps({"path": self.path, "body": body}) + "\n")
        try:
            blocks = script(body, dialect)
        except Refused as refusal:
            self.answer(refusal.status, {"error": {"message": str(refusal), "type": "refused", "code": None}})
            return
        if body.get("stream"):
            self.stream(body, blocks, messages_events if dialect == "anthropic" else chat_events)
        else:
            self.answer(200, (messages_whole if dialect == "anthropic" else chat_whole)(body, blocks))

    def answer(self, status: int, body: dict) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        if status in (429, 503):
            self.send_header("retry-after", "1")
        self.end_headers()
        self.wfile.write(text)

    def stream(self, body: dict, blocks: list[tuple], events) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        whole = list(events(body, blocks))
        for event in whole[:4] if body["model"] == "breaking" else whole:
            self.wfile.write(event)

    def log_message(self, *_) -> None:
        pass


# Where every request is written, for a look at what an agent sends.
RECORD = sys.argv[1] if len(sys.argv) > 1 else None

if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()
