// Asks for the URLs in its arguments with Node's own fetch, configured by the environment alone.
// Prints one line of JSON for each.
for (const url of process.argv.slice(2)) {
  let said
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(20_000) })
    await response.arrayBuffer()
    said = { outcome: 'ok', status: response.status }
  } catch (error) {
    said = { outcome: 'error', message: `${error}: ${error.cause?.code ?? error.cause ?? ''}` }
  }
  console.log(JSON.stringify(said))
}
