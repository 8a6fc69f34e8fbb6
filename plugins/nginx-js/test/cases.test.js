// Every case under cases/, answered in Node.

import { test } from "node:test";

import { casesIn, checkCase } from "@hotshoe/sdk/testing";
import { parse } from "yaml";

import plugin from "../plugin.js";

for (const one of casesIn(new URL("../cases", import.meta.url), parse)) {
  test(one.name, () => checkCase(plugin, one));
}
