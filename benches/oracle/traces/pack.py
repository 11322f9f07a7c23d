#!/usr/bin/env python3
"""Packs the published traces for the simulator: pack.py DIRECTORY_WITH_CSV_GZ, run in this directory."""
import csv
import gzip
import sys
from datetime import datetime


def number(value):
    """Seven bits per byte, lowest first; the highest bit says that another byte follows."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return out


for name in ("conv", "code"):
    with gzip.open(f"{sys.argv[1]}/azure_llm_2023_{name}.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    packed, start, before = bytearray(), None, 0
    for row in rows:
        at = datetime.fromisoformat(row["TIMESTAMP"][:26])
        start = start or at
        millis = round((at - start).total_seconds() * 1000)
        packed += number(millis - before) + number(int(row["ContextTokens"])) + number(int(row["GeneratedTokens"]))
        before = millis
    with open(f"azure_2023_{name}.bin", "wb") as file:
        file.write(packed)
    tokens = [int(row["GeneratedTokens"]) for row in rows]
    prompts = [int(row["ContextTokens"]) for row in rows]
    print(name, len(rows), "requests", before / 1000, "s, most tokens", max(prompts), max(tokens), len(packed), "bytes")
