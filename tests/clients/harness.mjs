// Runs named checks one after the other, says how each went, and counts.
//
// Not a test framework: a check is an async function, a failure is an exception, and the last line
// carries the counts that `run` adds up.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** The checks of one client. */
export class Checks {
  #client;
  #passed = 0;
  #failed = 0;

  constructor(client) {
    this.#client = client;
  }

  /** Runs one check; whatever it throws is its failure. */
  async check(name, body) {
    try {
      await body();
      this.#passed += 1;
      console.log(`ok      ${name}`);
    } catch (fault) {
      this.#failed += 1;
      console.log(`FAILED  ${name}: ${fault} (line ${lineOf(fault)})`);
    }
  }

  /** Prints the counts and sets the exit code: 0 when all is well. */
  finish() {
    console.log(`${this.#client}: ${this.#passed} passed, ${this.#failed} failed`);
    process.exitCode = this.#failed > 0 ? 1 : 0;
  }
}

/** An assertion that always says what it saw. */
export function expect(condition, message) {
  if (!condition) {
    throw new Error(message);
  }
}

/** Equality of JSON values, with both sides in the message. */
export function same(got, wanted, what) {
  const [left, right] = [got, wanted].map((value) => JSON.stringify(canonical(value)));
  expect(left === right, `${what} is ${left}, expected ${right}`);
}

/** Runs `body`, which must fail with exactly a `kind`, and gives what was thrown. */
export async function rejects(kind, body) {
  let value;
  try {
    value = await body();
  } catch (fault) {
    const name = fault?.constructor?.name;
    expect(fault?.constructor === kind, `threw ${name} (${fault?.message}), expected ${kind.name}`);
    return fault;
  }
  throw new Error(`nothing was thrown, expected ${kind.name}; got ${JSON.stringify(value)?.slice(0, 300)}`);
}

/** The version of an installed package, read from its entry point upwards. */
export function versionOf(name) {
  let folder = new URL(".", import.meta.resolve(name));
  for (; folder.pathname !== "/"; folder = new URL("..", folder)) {
    try {
      const found = JSON.parse(readFileSync(fileURLToPath(new URL("package.json", folder)), "utf8"));
      if (found.name === name) {
        return found.version;
      }
    } catch {
      // No package.json here: one folder up.
    }
  }
  throw new Error(`no version of ${name} found`);
}

/** A value from the environment that `run` always sets. */
export function given(name) {
  const value = process.env[name];
  expect(value, `${name} is not set: start this through tests/clients/run`);
  return value;
}

/** The line of the check, not of the client or of this file, from which the failure came. */
function lineOf(fault) {
  const frames = String(fault?.stack).split("\n");
  const own = frames.filter((frame) => frame.includes(process.argv[1]));
  return (own.at(-2) ?? own.at(-1))?.match(/:(\d+):\d+\)?$/)?.[1] ?? "unknown";
}

function canonical(value) {
  if (Array.isArray(value)) {
    return value.map(canonical);
  }
  if (value !== null && typeof value === "object") {
    return Object.fromEntries(Object.keys(value).sort().map((key) => [key, canonical(value[key])]));
  }
  return value;
}
