// Whom Node trusts: TLS inside a tunnel of the proxy, made by hand, for Node 20 sends nothing to one by itself.
//
//   node trust.mjs PROXY_HOST PROXY_PORT SERVER_NAME [late=FILE | ca=FILE]
//
// `late` sets NODE_EXTRA_CA_CERTS inside the process; `ca` gives the connection roots of its own.
import { readFileSync } from 'node:fs'
import { request } from 'node:http'
import { connect } from 'node:tls'

const [host, port, servername, option] = process.argv.slice(2)
const [name, file] = option?.split('=') ?? []
if (name === 'late') process.env.NODE_EXTRA_CA_CERTS = file
const own = name === 'ca' ? { ca: readFileSync(file) } : {}
const say = (what) => {
  console.log(JSON.stringify(what))
  process.exit(0)
}
const tunnel = request({ host, port, method: 'CONNECT', path: `${servername}:443` })
tunnel.on('error', (error) => say({ outcome: 'error', message: String(error) }))
tunnel.on('connect', (_, socket) => {
  const tls = connect({ socket, servername, ...own }, () => say({ outcome: 'ok' }))
  tls.on('error', (error) => say({ outcome: 'error', message: error.code }))
})
tunnel.end()
