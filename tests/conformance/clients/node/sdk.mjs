// The official Node SDKs, unmodified, configured by the environment alone; requests and answers as in python_sdk.py.
// Node 20's own fetch knows no proxy variables: there the SDKs' documented `fetchOptions.dispatcher` takes undici's
// EnvHttpProxyAgent. Newer versions of Node read the variables themselves when NODE_USE_ENV_PROXY is set.
import readline from 'node:readline'
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'

const prompt = 'Name the parts of a flower, please: petals, sepals, stamens, pistil.'
const messages = [{ role: 'user', content: prompt }]
const chat = { model: 'gpt-4o-mini', messages }
const responses = { model: 'gpt-4o-mini', input: prompt }
const message = { model: 'claude-sonnet-4-5', max_tokens: 256, messages }

const options = {}
if (!process.env.NODE_USE_ENV_PROXY) {
  const { EnvHttpProxyAgent } = await import('undici')
  options.fetchOptions = { dispatcher: new EnvHttpProxyAgent() }
}
const openai = new OpenAI(options)
const anthropic = new Anthropic(options)

const onChatChunk = (seen, chunk) => {
  seen.events += 1
  for (const choice of chunk.choices ?? []) {
    seen.text += choice.delta?.content ?? ''
    seen.finish = choice.finish_reason ?? seen.finish
  }
}
const onResponseEvent = (seen, event) => {
  seen.events += 1
  if (event.type === 'response.output_text.delta') seen.text += event.delta
  if (event.type === 'response.completed') seen.finish = event.response.status
  if (event.type === 'error' || event.type === 'response.failed') seen.finish = event.type
}
const onMessageEvent = (seen, event) => {
  seen.events += 1
  if (event.type === 'content_block_delta') seen.text += event.delta.text ?? ''
  if (event.type === 'message_delta') seen.finish = event.delta.stop_reason
}
const each = async (stream, seen, record) => {
  for await (const event of stream) record(seen, event)
  return stream
}

const cases = {
  'openai/chat': async (seen, o) => {
    const answer = await openai.chat.completions.create(chat, o)
    seen.text = answer.choices[0].message.content
    seen.finish = answer.choices[0].finish_reason
  },
  'openai/embeddings': async (seen, o) => {
    const answer = await openai.embeddings.create({ model: 'text-embedding-3-small', input: ['petal', 'sepal'] }, o)
    seen.events = answer.data.length
    seen.text = String(answer.data[0].embedding.length)
  },
  'openai/chat.create': async (seen, o) => {
    await each(await openai.chat.completions.create({ ...chat, stream: true }, o), seen, onChatChunk)
  },
  'openai/chat.stream': async (seen, o) => {
    const stream = await each(openai.chat.completions.stream(chat, o), seen, onChatChunk)
    await stream.finalChatCompletion()
  },
  'openai/responses.create': async (seen, o) => {
    await each(await openai.responses.create({ ...responses, stream: true }, o), seen, onResponseEvent)
  },
  'anthropic/messages': async (seen, o) => {
    const answer = await anthropic.messages.create(message, o)
    seen.text = answer.content[0].text
    seen.finish = answer.stop_reason
  },
  'anthropic/messages.create': async (seen, o) => {
    await each(await anthropic.messages.create({ ...message, stream: true }, o), seen, onMessageEvent)
  },
  'anthropic/messages.stream': async (seen, o) => {
    const stream = await each(anthropic.messages.stream(message, o), seen, onMessageEvent)
    await stream.finalMessage()
  },
}

// The class of an SDK's error, with the SDK's name before it; a plain JavaScript error keeps its bare name.
const className = (error) => {
  if (error instanceof OpenAI.OpenAIError) return `openai.${error.constructor.name}`
  if (error instanceof Anthropic.AnthropicError) return `anthropic.${error.constructor.name}`
  return error.constructor.name
}

for await (const line of readline.createInterface({ input: process.stdin })) {
  const request = JSON.parse(line)
  const seen = { text: '', finish: null, events: 0 }
  const abort = new AbortController()
  const call = { timeout: (request.timeout ?? 10) * 1000, maxRetries: request.retries ?? 0, signal: abort.signal }
  // `patience` is how long past the client's own timeout an answer is awaited before it counts as waiting for ever.
  let waiting
  const patience = new Promise((resolve) => {
    waiting = setTimeout(() => resolve({ outcome: 'waits' }), (request.patience ?? 60) * 1000)
  })
  const finished = cases[request.case](seen, call).then(
    () => ({ outcome: 'ok' }),
    (error) => ({
      outcome: 'error',
      error: className(error),
      status: error.status ?? null,
      type: error.type ?? error.error?.error?.type ?? null,
      message: String(error.message).slice(0, 300),
    }),
  )
  const answer = await Promise.race([finished, patience])
  clearTimeout(waiting)
  Object.assign(answer, seen)
  if (answer.outcome === 'waits') {
    abort.abort()
    await finished
  }
  console.log(JSON.stringify(answer))
}
