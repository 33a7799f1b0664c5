use super::{Dialect, Operation, Recognised};

/// What a path is of, by its shape alone.
pub(super) fn shape(method: &str, path: &str) -> Recognised {
    let steps: Vec<&str> = path.split('/').filter(|step| !step.is_empty()).collect();
    let known = vector_store(method, &steps).or_else(|| provider(method, &steps));
    known.map_or_else(Recognised::default, |(dialect, operation)| Recognised { dialect, operation })
}

type Shape = (Option<Dialect>, Option<Operation>);

fn provider(method: &str, steps: &[&str]) -> Option<Shape> {
    use Dialect::{Anthropic, Cohere, DashScope, Gemini, Ollama, OpenAi};
    let is = |dialect, operation| Some((Some(dialect), Some(operation)));
    let (last, before) = steps.split_last()?;
    let previous = before.last().copied().unwrap_or_default();
    if let Some((_, verb)) = last.rsplit_once(':') {
        return gemini(verb);
    }
    if method == "GET" {
        return match (previous, *last) {
            ("v1beta" | "v1alpha", "models") | ("google", "models") => is(Gemini, Operation::Models),
            ("api", "tags") => is(Ollama, Operation::Models),
            (_, "models") => is(OpenAi, Operation::Models),
            _ => None,
        };
    }
    match (previous, *last) {
        ("chat", "completions") => is(compatible(steps), Operation::Chat),
        ("fim", "completions") => is(Dialect::Mistral, Operation::Completions),
        (_, "completions") => is(compatible(steps), Operation::Completions),
        (_, "responses") => is(compatible(steps), Operation::Responses),
        ("v1", "messages") => is(Anthropic, Operation::Chat),
        (_, "messages") if before.is_empty() => is(Anthropic, Operation::Chat),
        ("messages", "count_tokens" | "batches") => Some((Some(Anthropic), None)),
        ("api", "chat") => is(Ollama, Operation::Chat),
        ("api", "generate") => is(Ollama, Operation::Completions),
        ("api", "embed" | "embeddings") => is(Ollama, Operation::Embeddings),
        (_, "embeddings") => is(compatible(steps), Operation::Embeddings),
        ("v1" | "v2", "chat") => is(Cohere, Operation::Chat),
        ("v1" | "v2", "embed") => is(Cohere, Operation::Embeddings),
        ("v1" | "v2", "rerank") => is(Cohere, Operation::Rerank),
        (_, "rerank") => Some((None, Some(Operation::Rerank))),
        ("text-generation" | "multimodal-generation", "generation") => is(DashScope, Operation::Chat),
        ("text-embedding" | "multimodal-embedding", _) => is(DashScope, Operation::Embeddings),
        (_, "invoke" | "invoke-with-response-stream" | "converse" | "converse-stream") => {
            steps.contains(&"model").then_some((Some(Dialect::Bedrock), Some(Operation::Chat)))
        }
        (_, "mcp") => Some((None, Some(Operation::Tool))),
        _ => None,
    }
}

fn gemini(verb: &str) -> Option<Shape> {
    match verb {
        "generateContent" | "streamGenerateContent" => Some((Some(Dialect::Gemini), Some(Operation::Chat))),
        "embedContent" | "batchEmbedContents" => Some((Some(Dialect::Gemini), Some(Operation::Embeddings))),
        "countTokens" => Some((Some(Dialect::Gemini), None)),
        // Claude on Vertex.
        "rawPredict" | "streamRawPredict" => Some((Some(Dialect::Anthropic), Some(Operation::Chat))),
        _ => None,
    }
}

/// Who serves OpenAI's API under a path of this shape.
fn compatible(steps: &[&str]) -> Dialect {
    match steps {
        [.., "openai", "deployments", _, _] | [.., "openai", "deployments", _, _, _] => Dialect::Azure,
        ["compatible-mode", ..] => Dialect::DashScope,
        ["api", "v3", ..] => Dialect::Ark,
        _ => Dialect::OpenAi,
    }
}

fn vector_store(method: &str, steps: &[&str]) -> Option<Shape> {
    use Operation::{VectorAdmin, VectorDelete, VectorGet, VectorScroll, VectorSearch, VectorUpsert};
    if let Some(at) = steps.iter().position(|step| *step == "vectordb") {
        return Some((Some(Dialect::Milvus), milvus(&steps[at + 1..])));
    }
    if let Some(at) = steps.iter().position(|step| *step == "collections") {
        let within = &steps[at + 1..];
        let is_chroma = steps[..at].contains(&"tenants") || steps[..at] == ["api", "v1"];
        return if is_chroma {
            Some((Some(Dialect::Chroma), chroma(within)))
        } else {
            qdrant(method, within)
        };
    }
    let is = |dialect, operation| Some((Some(dialect), Some(operation)));
    match steps {
        ["query"] => is(Dialect::Pinecone, VectorSearch),
        ["vectors", "upsert" | "update"] => is(Dialect::Pinecone, VectorUpsert),
        ["vectors", "delete"] => is(Dialect::Pinecone, VectorDelete),
        ["vectors", "fetch"] => is(Dialect::Pinecone, VectorGet),
        ["vectors", "list"] => is(Dialect::Pinecone, VectorScroll),
        ["records", "namespaces", _, "search"] => is(Dialect::Pinecone, VectorSearch),
        ["records", "namespaces", _, "upsert"] => is(Dialect::Pinecone, VectorUpsert),
        ["describe_index_stats"] => is(Dialect::Pinecone, VectorAdmin),
        [.., "v1", "graphql"] => is(Dialect::Weaviate, VectorSearch),
        [.., "v1", "batch", "objects"] | [.., "v1", "objects"] if method == "POST" => {
            is(Dialect::Weaviate, VectorUpsert)
        }
        [.., "v1", "batch", "objects"] | [.., "v1", "objects", _, _] if method == "DELETE" => {
            is(Dialect::Weaviate, VectorDelete)
        }
        [.., "v1", "schema"] | [.., "v1", "schema", _] => is(Dialect::Weaviate, VectorAdmin),
        [.., "_search" | "_knn_search" | "_msearch"] => is(Dialect::Elasticsearch, VectorSearch),
        [.., "_bulk"] => is(Dialect::Elasticsearch, VectorUpsert),
        [.., "_doc" | "_create" | "_update"] | [.., "_doc" | "_create" | "_update", _] => {
            let operation = match method {
                "GET" | "HEAD" => VectorGet,
                "DELETE" => VectorDelete,
                _ => VectorUpsert,
            };
            is(Dialect::Elasticsearch, operation)
        }
        [.., "_delete_by_query"] => is(Dialect::Elasticsearch, VectorDelete),
        _ => None,
    }
}

fn qdrant(method: &str, within: &[&str]) -> Option<Shape> {
    let operation = match within {
        [_, "points", "query" | "search" | "recommend" | "discover", ..] => Operation::VectorSearch,
        [_, "points", "scroll"] => Operation::VectorScroll,
        [_, "points", "delete"] => Operation::VectorDelete,
        [_, "points", "batch" | "payload" | "vectors", ..] | [_, "points"] if method == "PUT" => {
            Operation::VectorUpsert
        }
        [_, "points", "batch" | "payload" | "vectors"] => Operation::VectorUpsert,
        [_, "points", "payload" | "vectors", "delete" | "clear"] => Operation::VectorDelete,
        [_, "points"] => Operation::VectorGet,
        [_, "points", _] if method == "GET" => Operation::VectorGet,
        [] | [_] | [_, "index" | "aliases" | "snapshots" | "exists" | "cluster", ..] => {
            Operation::VectorAdmin
        }
        _ => return Some((Some(Dialect::Qdrant), None)),
    };
    Some((Some(Dialect::Qdrant), Some(operation)))
}

fn milvus(within: &[&str]) -> Option<Operation> {
    match within {
        ["entities", "search" | "hybrid_search" | "advanced_search"] => Some(Operation::VectorSearch),
        ["entities", "query"] => Some(Operation::VectorScroll),
        ["entities", "get"] => Some(Operation::VectorGet),
        ["entities", "insert" | "upsert"] => Some(Operation::VectorUpsert),
        ["entities", "delete"] => Some(Operation::VectorDelete),
        [_, ..] => Some(Operation::VectorAdmin),
        [] => None,
    }
}

fn chroma(within: &[&str]) -> Option<Operation> {
    match within {
        [_, "query" | "search"] => Some(Operation::VectorSearch),
        [_, "get"] => Some(Operation::VectorGet),
        [_, "add" | "upsert" | "update"] => Some(Operation::VectorUpsert),
        [_, "delete"] => Some(Operation::VectorDelete),
        [] | [_] => Some(Operation::VectorAdmin),
        _ => None,
    }
}
