"""LangChain's agent with a tool, by its OpenAI and its Anthropic integration."""

import os
import sys

from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

openai_url, anthropic_url, key, task = os.environ["OPENAI_URL"], os.environ["ANTHROPIC_URL"], os.environ["KEY"], sys.argv[1]


@tool
def read_file(path: str) -> str:
    """Reads a file."""
    with open(path, encoding="utf-8") as file:
        return file.read()


models = {
    "chat": ChatOpenAI(model="depot/agent", base_url=openai_url, api_key=key),
    "chat streamed": ChatOpenAI(model="depot/agent", base_url=openai_url, api_key=key, streaming=True, stream_usage=True),
    "messages": ChatAnthropic(model="depot/agent", base_url=anthropic_url, api_key=key, max_tokens=2000),
    "messages streamed": ChatAnthropic(
        model="depot/thinker",
        base_url=anthropic_url,
        api_key=key,
        max_tokens=4000,
        streaming=True,
        thinking={"type": "enabled", "budget_tokens": 2000},
    ),
}
for name, model in models.items():
    ended = create_agent(model, [read_file]).invoke({"messages": [{"role": "user", "content": task}]})
    last = ended["messages"][-1]
    usage = last.usage_metadata
    print(f"{name}: {last.text.strip()!r} {usage['input_tokens'] > 0 and usage['output_tokens'] > 0}")
