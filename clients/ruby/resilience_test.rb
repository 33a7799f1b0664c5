# A program that streams from a language model must notice when the stream breaks.
require 'json'
require 'minitest/autorun'
require 'net/http'
require 'securerandom'

API = URI(ENV.fetch('ACONITE_URL', 'http://127.0.0.1:8474'))

def aconite(method, path, body = nil)
  request = Net::HTTPGenericRequest.new(method, !body.nil?, true, "/v1#{path}", 'authorization' => "Bearer #{ENV['ACONITE_TOKEN']}")
  answer = Net::HTTP.start(API.host, API.port) { |http| http.request(request, body&.to_json) }
  raise answer.body unless answer.is_a?(Net::HTTPSuccess)

  answer.body.to_s.empty? ? nil : JSON.parse(answer.body)
rescue Errno::ECONNREFUSED
  abort "no Aconite server at #{API}: start one with `aconite serve`, or set ACONITE_URL"
end

class ResilienceTest < Minitest::Test
  def setup
    # A name of its own: test runs can share a server.
    @name = "ruby-#{SecureRandom.uuid}"
    proxy = aconite('POST', '/proxies', name: @name, listen: '127.0.0.1:0', upstream: 'sim://openai?tps=1000')
    @address = URI("http://#{proxy['listen']}/v1/chat/completions")
  end

  def teardown
    aconite('DELETE', "/proxies/#{@name}")
  end

  # The program under test.
  def stream
    body = { model: 'gpt-4o', stream: true, messages: [{ role: 'user', content: 'hello' }] }.to_json
    Net::HTTP.start(@address.host, @address.port, max_retries: 0) do |http|
      http.post(@address.path, body, 'content-type' => 'application/json', 'authorization' => 'Bearer any').body
    end
  end

  def test_healthy
    assert stream.end_with?("data: [DONE]\n\n")
  end

  { fin: EOFError, rst: Errno::ECONNRESET }.each do |how, error|
    define_method("test_#{how}_is_noticed") do
      aconite('POST', "/proxies/#{@name}/toxics", type: 'cut', attributes: { at: { events: 3 }, how: how })
      assert_raises(error) { stream }
      exchange = aconite('GET', "/exchanges?proxy=#{@name}&wait=1")['exchanges'].last
      assert exchange['toxics'].first['struck'], 'no toxic was applied'
    end
  end
end
