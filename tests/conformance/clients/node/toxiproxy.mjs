// toxiproxy-node-client, unmodified, against the admin API: toxiproxy.mjs HOST PORT UPSTREAM.
// UPSTREAM echoes. Prints one JSON line for each check: {"check", "ok", "message"}.
import assert from 'node:assert/strict'
import net from 'node:net'
import { Toxiproxy } from 'toxiproxy-node-client'

const [host, port, upstream] = process.argv.slice(2)
const server = new Toxiproxy(`http://${host}:${port}`)
const toxics = {
  latency: { latency: 150, jitter: 0 },
  bandwidth: { rate: 1000 },
  slow_close: { delay: 5 },
  timeout: { timeout: 60000 },
  reset_peer: { timeout: 60000 },
  slicer: { average_size: 10, size_variation: 5, delay: 10 },
  limit_data: { bytes: 1000000 },
}

// The milliseconds that a round trip through the proxy takes.
const echo = (proxy, payload = 'petal') =>
  new Promise((resolve, reject) => {
    const [address, number] = proxy.listen.split(':')
    const started = performance.now()
    const socket = net.connect(Number(number), address, () => socket.write(payload))
    let read = ''
    socket.setTimeout(10000, () => socket.destroy(new Error('no echo within 10 s')))
    socket.on('data', (chunk) => {
      read += chunk
      if (read.length >= payload.length) socket.end()
    })
    socket.on('error', reject)
    socket.on('close', (failed) => {
      if (failed) return
      if (read === payload) resolve(performance.now() - started)
      else reject(new Error(`closed after ${read.length} of ${payload.length} bytes`))
    })
  })
const refused = (proxy) => assert.rejects(echo(proxy), { code: 'ECONNREFUSED' })
const failsWith = (promise, status) => assert.rejects(promise, new RegExp(`status code ${status}$`))

const checks = {
  version: async () => {
    assert.equal(JSON.parse(await server.getVersion()).version, '2.12.0')
  },
  create: async () => {
    const proxy = await server.createProxy({ name: 'node', listen: '127.0.0.1:0', upstream })
    assert.match(proxy.listen, /^127\.0\.0\.1:[1-9]\d+$/)
    assert.deepEqual([proxy.name, proxy.upstream, proxy.enabled], ['node', upstream, true])
    await echo(proxy)
  },
  'create twice': () => failsWith(server.createProxy({ name: 'node', listen: '127.0.0.1:0', upstream }), 409),
  'missing proxy': () => failsWith(server.get('none'), 404),
  populate: async () => {
    const proxies = await server.populate([
      { name: 'node-one', listen: '127.0.0.1:0', upstream },
      { name: 'node-two', listen: '127.0.0.1:0', upstream },
    ])
    assert.deepEqual(Object.keys(proxies), ['node-one', 'node-two'])
    for (const proxy of Object.values(proxies)) await echo(proxy)
    assert.deepEqual(Object.keys(await server.getAll()), ['node', 'node-one', 'node-two'])
  },
  'populate nothing': async () => {
    assert.deepEqual(await server.populate([]), {})
  },
}
for (const [type, attributes] of Object.entries(toxics)) {
  checks[`toxic ${type}`] = async () => {
    const proxy = await server.get('node')
    for (const stream of ['downstream', 'upstream']) {
      const made = await proxy.addToxic({ type, stream, toxicity: 0.5, name: '', attributes })
      const toxic = await proxy.getToxic(`${type}_${stream}`)
      const wanted = { attributes, name: `${type}_${stream}`, stream, toxicity: 0.5, type }
      assert.deepEqual(made.toJson(), wanted)
      assert.deepEqual(toxic.toJson(), wanted)
      await toxic.remove()
      await failsWith(proxy.getToxic(toxic.name), 404)
    }
  }
}
Object.assign(checks, {
  'unknown toxic type': async () => {
    const proxy = await server.get('node')
    await failsWith(proxy.addToxic({ type: 'nectar', stream: 'downstream', toxicity: 1, name: 'n', attributes: {} }), 400)
  },
  'latency added, updated, removed': async () => {
    const proxy = await server.get('node')
    const toxic = await proxy.addToxic({
      type: 'latency', stream: 'upstream', toxicity: 1, name: 'slow', attributes: { latency: 1000, jitter: 0 },
    })
    assert.ok((await echo(proxy)) >= 1000)
    const updated = await toxic.update({ ...toxic.toJson(), attributes: { latency: 1500, jitter: 0 } })
    assert.equal(updated.attributes.latency, 1500)
    assert.ok((await echo(proxy)) >= 1500)
    await toxic.remove()
    assert.ok((await echo(proxy)) < 1000)
  },
  'update proxy': async () => {
    const proxy = await server.get('node')
    const disabled = await proxy.update({ ...proxy.toJson(), enabled: false })
    assert.equal(disabled.enabled, false)
    await refused(proxy)
    const enabled = await proxy.update({ ...proxy.toJson(), enabled: true })
    assert.equal(enabled.listen, proxy.listen)
    await echo(enabled)
  },
  reset: async () => {
    const proxy = await server.get('node')
    await proxy.addToxic({
      type: 'latency', stream: 'downstream', toxicity: 1, name: 'slow', attributes: { latency: 60000, jitter: 0 },
    })
    await proxy.update({ ...proxy.toJson(), enabled: false })
    await server.reset()
    assert.equal((await server.get('node')).enabled, true)
    await failsWith(proxy.getToxic('slow'), 404)
    await echo(proxy)
  },
  remove: async () => {
    const proxies = await server.getAll()
    for (const proxy of Object.values(proxies)) {
      await proxy.remove()
      await refused(proxy)
    }
    assert.deepEqual(await server.getAll(), {})
  },
})

for (const [check, run] of Object.entries(checks)) {
  const result = { check, ok: true, message: '' }
  try {
    await run()
  } catch (error) {
    Object.assign(result, { ok: false, message: String(error.message).slice(0, 400) })
  }
  console.log(JSON.stringify(result))
}
