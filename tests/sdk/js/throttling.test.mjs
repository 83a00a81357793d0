// 429: the client waits as long as it is told, and then gets through. This file has a server of its
// own, with throughput enforced and a clock that runs.

import assert from "node:assert/strict";
import { test } from "node:test";
import { connect, freshContainer, refused, watched } from "./support.mjs";

const LARGE = "x".repeat(1024 * 1024); // costs more than a second's 400 RU to write

test("a throttled request is sent again after the wait", async (t) => {
  const { client, sent } = watched();
  const container = await freshContainer(t, {}, client);
  // The second may end right behind the large item; it does not do so twice.
  for (let number = 0; !sent.some(({ status }) => status === 429) && number < 5; number += 1) {
    await container.items.create({ id: `large${number}`, pk: "p", text: LARGE });
    const { resource } = await container.items.create({ id: `small${number}`, pk: "p" });
    assert.equal(resource.id, `small${number}`);
  }
  assert.ok(sent.some(({ status }) => status === 429));
  assert.equal(sent.at(-1).status, 201);
});

test("without retries the refusal is seen", async (t) => {
  const options = { connectionPolicy: { retryOptions: { maxRetryAttemptCount: 0 } } };
  const container = await freshContainer(t, {}, connect(options));
  await container.items.create({ id: "a", pk: "p", text: LARGE });
  let error;
  for (let number = 0; error === undefined && number < 5; number += 1) {
    const large = { id: `b${number}`, pk: "p", text: LARGE };
    error = await container.items.create(large).then(() => undefined, (reason) => reason);
  }
  await refused(Promise.reject(error), 429, { sub: 3200, text: "Request rate is large." });
  assert.ok(error.retryAfterInMs > 0 && error.retryAfterInMs <= 4000, error.retryAfterInMs);
});
