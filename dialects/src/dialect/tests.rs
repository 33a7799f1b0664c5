use super::*;

fn at(host: &str, line: &str) -> (Option<&'static str>, Option<&'static str>) {
    let (method, path) = line.split_once(' ').unwrap();
    let Recognised { dialect, operation } = recognise(host, method, path, |_| false);
    (dialect.map(Dialect::name), operation.map(Operation::name))
}

#[test]
fn paths_alone_tell_what_a_request_is() {
    for (line, dialect, operation) in [
        ("POST /v1/chat/completions", "openai", "chat"),
        ("POST //v1//chat/completions?x=1", "openai", "chat"),
        ("POST /v1/chat%2Fcompletions", "openai", "chat"),
        ("POST /v1/c%68at/completions", "openai", "chat"),
        ("POST /gateway/openai/v1/responses", "openai", "responses"),
        ("POST /chat/completions", "openai", "chat"),
        ("POST /v1/completions", "openai", "completions"),
        ("POST /v1/embeddings", "openai", "embeddings"),
        ("GET /v1/models", "openai", "models"),
        ("POST /v1/messages?beta=true", "anthropic", "chat"),
        ("POST /messages", "anthropic", "chat"),
        ("POST /openai/deployments/gpt/chat/completions?api-version=1", "azure", "chat"),
        ("POST /openai/deployments/e/embeddings", "azure", "embeddings"),
        ("POST /v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse", "gemini", "chat"),
        ("POST /v1beta/models/gemini-2.5-pro%3AgenerateContent", "gemini", "chat"),
        ("POST /v1beta/models/e:batchEmbedContents", "gemini", "embeddings"),
        ("GET /v1beta/models", "gemini", "models"),
        (
            "POST /v1/projects/p/locations/l/publishers/anthropic/models/claude:streamRawPredict",
            "anthropic",
            "chat",
        ),
        ("POST /model/anthropic.claude-v2%3A1/converse-stream", "bedrock", "chat"),
        ("POST /v2/chat", "cohere", "chat"),
        ("POST /v2/rerank", "cohere", "rerank"),
        ("POST /v1/fim/completions", "mistral", "completions"),
        ("POST /compatible-mode/v1/chat/completions", "dashscope", "chat"),
        ("POST /api/v1/services/aigc/text-generation/generation", "dashscope", "chat"),
        ("POST /api/v3/chat/completions", "ark", "chat"),
        ("POST /api/chat", "ollama", "chat"),
        ("POST /api/generate", "ollama", "completions"),
        ("POST /api/embed", "ollama", "embeddings"),
        ("GET /api/tags", "ollama", "models"),
        ("POST /collections/c/points/query", "qdrant", "vector.search"),
        ("POST /collections/c/points/search/batch", "qdrant", "vector.search"),
        ("POST /collections/c/points/scroll", "qdrant", "vector.scroll"),
        ("PUT /collections/c/points?wait=true", "qdrant", "vector.upsert"),
        ("POST /collections/c/points", "qdrant", "vector.get"),
        ("GET /collections/c/points/7", "qdrant", "vector.get"),
        ("POST /collections/c/points/batch", "qdrant", "vector.upsert"),
        ("POST /collections/c/points/payload/delete", "qdrant", "vector.delete"),
        ("POST /collections/c/points/delete", "qdrant", "vector.delete"),
        ("PUT /collections/c", "qdrant", "vector.admin"),
        ("GET /collections", "qdrant", "vector.admin"),
        ("POST /query", "pinecone", "vector.search"),
        ("POST /vectors/upsert", "pinecone", "vector.upsert"),
        ("POST /v1/graphql", "weaviate", "vector.search"),
        ("POST /v1/batch/objects", "weaviate", "vector.upsert"),
        ("POST /v2/vectordb/entities/search", "milvus", "vector.search"),
        ("POST /v2/vectordb/collections/create", "milvus", "vector.admin"),
        ("POST /api/v2/tenants/t/databases/d/collections/i/query", "chroma", "vector.search"),
        ("POST /index/_search", "elasticsearch", "vector.search"),
        ("POST /_bulk", "elasticsearch", "vector.upsert"),
    ] {
        assert_eq!(at("127.0.0.1:8001", line), (Some(dialect), Some(operation)), "{line}");
    }
    assert_eq!(at("127.0.0.1", "POST /v1/threads/t/messages"), (None, None));
    assert_eq!(at("127.0.0.1", "POST /v1/messages/count_tokens"), (Some("anthropic"), None));
    assert_eq!(at("127.0.0.1", "POST /collections/c/points/count"), (Some("qdrant"), None));
    assert_eq!(at("127.0.0.1", "POST /mcp"), (None, Some("tool")));
    assert_eq!(at("127.0.0.1", "GET /"), (None, None));
    assert_eq!(at("127.0.0.1", "GET /v1/chat/completions"), (None, None));
}

#[test]
fn a_host_tells_protocols_of_one_shape_apart() {
    for (host, line, dialect, operation) in [
        ("api.openai.com", "POST /v1/chat/completions", "openai", Some("chat")),
        ("API.Mistral.AI:443", "POST /v1/chat/completions", "mistral", Some("chat")),
        ("me.openai.azure.com.", "POST /openai/v1/chat/completions", "azure", Some("chat")),
        ("openrouter.ai", "POST /api/v1/chat/completions", "openrouter", Some("chat")),
        ("generativelanguage.googleapis.com", "POST /v1beta/openai/chat/completions", "openai", Some("chat")),
        ("api.anthropic.com", "GET /v1/models", "anthropic", Some("models")),
        ("api.anthropic.com", "GET /unheard-of", "anthropic", None),
        ("bedrock-runtime.us-east-1.amazonaws.com", "POST /model/m/invoke", "bedrock", Some("chat")),
        (
            "x.eu-central-1.aws.cloud.qdrant.io:6333",
            "POST /collections/c/points/query",
            "qdrant",
            Some("vector.search"),
        ),
    ] {
        assert_eq!(at(host, line), (Some(dialect), operation), "{host} {line}");
    }
    assert_eq!(at("api.openai.com.example.test", "GET /"), (None, None));
    assert_eq!(at("cloud.qdrant.io", "GET /"), (None, None));
}

#[test]
fn a_header_tells_the_two_lists_of_models_apart() {
    let recognised = recognise("127.0.0.1", "GET", "/v1/models", |name| name == "anthropic-version");
    assert_eq!(recognised.dialect, Some(Dialect::Anthropic));
}

#[test]
fn cjk_01_any_path_is_looked_at_without_panic() {
    for path in ["/%E5%A5%BD/%ff%e5", "", "*", "/好/chat/completions", "%", "/:"] {
        let _ = (recognise("好", "POST", path, |_| false), model_in_path(path));
    }
}

#[test]
fn some_paths_name_the_model() {
    assert_eq!(
        model_in_path("/v1beta/models/gemini-2.5-pro:generateContent?key=x").as_deref(),
        Some("gemini-2.5-pro")
    );
    assert_eq!(
        model_in_path("/model/anthropic.claude-v2%3A1/invoke").as_deref(),
        Some("anthropic.claude-v2:1")
    );
    assert_eq!(model_in_path("/openai/deployments/gpt-4o/chat/completions").as_deref(), Some("gpt-4o"));
    assert_eq!(model_in_path("/v1/chat/completions"), None);
}

#[test]
fn names_and_aliases_lead_back() {
    for operation in Operation::ALL {
        assert_eq!(Operation::of_name(operation.name()), Some(*operation));
        assert_eq!(serde_json::to_value(operation).unwrap(), operation.name());
        assert_eq!(operation.to_string(), operation.name());
    }
    assert_eq!(serde_json::from_str::<Dialect>("\"qwen\"").unwrap(), Dialect::DashScope);
    assert_eq!(Dialect::of_name("qwen"), Some(Dialect::DashScope));
    assert!(Dialect::NAMES.contains(&"doubao"));
}

#[test]
fn every_provider_with_a_public_host_is_intercepted() {
    let owners: Vec<_> = known_hosts().map(|(_, dialect)| dialect).collect();
    assert!(Dialect::ALL.iter().all(|dialect| owners.contains(dialect)));
}

#[test]
fn whoever_has_models_has_a_name_in_telemetry() {
    for dialect in Dialect::ALL {
        let provider = dialect.provider();
        assert_eq!(provider.telemetry.is_some(), !provider.streams.is_empty(), "{dialect}");
    }
}

#[test]
fn only_ollama_streams_by_default() {
    assert!(Dialect::Ollama.provider().streams_by_default(Some(Operation::Chat)));
    assert!(!Dialect::Ollama.provider().streams_by_default(Some(Operation::Embeddings)));
    assert!(!Dialect::OpenAi.provider().streams_by_default(Some(Operation::Chat)));
}

#[test]
fn only_some_providers_name_the_model_in_the_path() {
    let model = |dialect: Dialect, path| dialect.provider().model_in_path(path).map(Cow::into_owned);
    assert_eq!(model(Dialect::Gemini, "/v1beta/models/g:generateContent").as_deref(), Some("g"));
    assert_eq!(model(Dialect::Azure, "/openai/deployments/d/chat/completions").as_deref(), Some("d"));
    assert_eq!(model(Dialect::OpenAi, "/v1/models/m"), None);
}
