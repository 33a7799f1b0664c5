// An upstream that is no part of the product: HTTP/1.1 and HTTP/2 over TLS, on a port that the system chooses.
// origin.mjs CERTIFICATE KEY; prints its port as the first line. Bodies count in four-byte big-endian numbers, so that
// what is lost, doubled or reordered on the way shows in their hash.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import http2 from 'node:http2'

const [certificate, key] = process.argv.slice(2)
const block = 65536

const counted = (from, length) => {
  const buffer = Buffer.allocUnsafe(Math.ceil(length / 4) * 4)
  for (let offset = 0; offset < length; offset += 4) buffer.writeUInt32BE((from + offset) / 4, offset)
  return buffer.subarray(0, length)
}
const drained = (response) => new Promise((resolve) => response.once('drain', resolve))

const sendBody = async (response, size) => {
  for (let sent = 0; sent < size && !response.destroyed; sent += block) {
    if (!response.write(counted(sent, Math.min(block, size - sent)))) await drained(response)
  }
  response.end()
}

const sendEvents = async (response, count) => {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
  for (let number = 0; number < count; number += 1) {
    const comment = number % 100 === 0 ? ': keep-alive\r\n\r\n' : ''
    const data = JSON.stringify({ number, text: '花瓣'.repeat(number % 7) })
    if (!response.write(`${comment}id:${number}\nevent: tick\ndata: ${data}\ndata:second  \n\n`)) await drained(response)
  }
  response.end('data: [DONE]\n\n')
}

const receive = async (request, response) => {
  const hash = createHash('sha256')
  let bytes = 0
  for await (const chunk of request) {
    hash.update(chunk)
    bytes += chunk.length
  }
  const { expect = null, 'content-length': length = null, 'transfer-encoding': coding = null } = request.headers
  const body = JSON.stringify({ sha256: hash.digest('hex'), bytes, expect, length, coding, version: request.httpVersion })
  response.setHeader('content-type', 'application/json')
  response.end(body)
}

const routes = {
  bytes: (request, response, size) => {
    response.writeHead(200, { 'content-type': 'application/octet-stream', 'content-length': size })
    return request.method === 'HEAD' ? response.end() : sendBody(response, Number(size))
  },
  unsized: (request, response, size) => {
    response.writeHead(200, { 'content-type': 'application/octet-stream' })
    return sendBody(response, Number(size))
  },
  events: (request, response, count) => sendEvents(response, Number(count)),
  upload: receive,
  status: (request, response, status) => {
    const headers = { etag: '"a1"', 'set-cookie': ['a=1', 'b=2'], 'X-Mixed-Case': 'Kept' }
    response.writeHead(Number(status), headers)
    response.end()
  },
  target: (request, response) => {
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ target: request.url, headers: request.rawHeaders, version: request.httpVersion }))
  },
}

const server = http2.createSecureServer(
  { allowHTTP1: true, cert: readFileSync(certificate), key: readFileSync(key) },
  async (request, response) => {
    const [, route, argument] = request.url.split(/[/?]/)
    try {
      await (routes[route] ?? routes.target)(request, response, argument)
    } catch (error) {
      response.destroy(error)
    }
  },
)
server.listen(0, '127.0.0.1', () => console.log(server.address().port))
