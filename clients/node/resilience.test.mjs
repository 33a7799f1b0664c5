// A program that streams from a language model must notice when the stream breaks.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, test } from 'node:test'

import OpenAI from 'openai'

const api = (process.env.ACONITE_URL ?? 'http://127.0.0.1:8474') + '/v1'
// A name of its own: test runs can share a server.
const name = `node-${randomUUID()}`
let baseURL

async function aconite(method, path, body) {
  const headers = { authorization: `Bearer ${process.env.ACONITE_TOKEN ?? ''}` }
  const request = { method, headers, body: body && JSON.stringify(body) }
  const answer = await fetch(api + path, request).catch((error) => {
    throw new Error(`no Aconite server at ${api}: start one with \`aconite serve\`, or set ACONITE_URL`, { cause: error })
  })
  const text = await answer.text()
  assert.ok(answer.ok, text)
  return text && JSON.parse(text)
}

before(async () => {
  const proxy = { name, listen: '127.0.0.1:0', upstream: 'sim://openai?tps=1000' }
  baseURL = `http://${(await aconite('POST', '/proxies', proxy)).listen}/v1`
})
after(() => baseURL && aconite('DELETE', `/proxies/${name}`))

// The program under test.
async function stream() {
  const client = new OpenAI({ baseURL, apiKey: 'any', maxRetries: 0 })
  const messages = [{ role: 'user', content: 'hello' }]
  let text = ''
  for await (const chunk of await client.chat.completions.create({ model: 'gpt-4o', stream: true, messages })) {
    text += chunk.choices[0]?.delta?.content ?? ''
  }
  return text
}

async function withToxic(toxic, run) {
  await aconite('POST', `/proxies/${name}/toxics`, toxic)
  try {
    await run()
    const { exchanges } = await aconite('GET', `/exchanges?proxy=${name}&wait=1`)
    assert.ok(exchanges.at(-1).toxics.some(({ struck }) => struck), 'no toxic was applied')
  } finally {
    await aconite('DELETE', `/proxies/${name}/toxics`)
  }
}

test('healthy', async () => assert.match(await stream(), /hello/))

test('a broken stream throws', () =>
  withToxic({ type: 'cut', attributes: { at: { events: 3 }, how: 'rst' } }, () => assert.rejects(stream(), TypeError)))

test('a rate limit is the provider’s own', () =>
  withToxic({ type: 'fail', attributes: { cause: 'rate_limit' } }, () => assert.rejects(stream(), OpenAI.RateLimitError)))
