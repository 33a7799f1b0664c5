use super::Dialect;

/// Hosts that a provider owns. `*` stands for any characters, dots included.
const HOSTS: &[(&str, Dialect)] = &[
    ("api.openai.com", Dialect::OpenAi),
    ("*.api.openai.com", Dialect::OpenAi),
    ("*.openai.azure.com", Dialect::Azure),
    ("*.services.ai.azure.com", Dialect::Azure),
    ("*.cognitiveservices.azure.com", Dialect::Azure),
    ("api.anthropic.com", Dialect::Anthropic),
    ("generativelanguage.googleapis.com", Dialect::Gemini),
    ("aiplatform.googleapis.com", Dialect::Gemini),
    ("*-aiplatform.googleapis.com", Dialect::Gemini),
    ("bedrock-runtime.*.amazonaws.com", Dialect::Bedrock),
    ("bedrock-runtime-fips.*.amazonaws.com", Dialect::Bedrock),
    ("api.cohere.com", Dialect::Cohere),
    ("api.cohere.ai", Dialect::Cohere),
    ("api.mistral.ai", Dialect::Mistral),
    ("api.deepseek.com", Dialect::DeepSeek),
    ("dashscope.aliyuncs.com", Dialect::DashScope),
    ("dashscope-*.aliyuncs.com", Dialect::DashScope),
    ("ark.*.volces.com", Dialect::Ark),
    ("ark.*.bytepluses.com", Dialect::Ark),
    ("ollama.com", Dialect::Ollama),
    ("openrouter.ai", Dialect::OpenRouter),
    ("*.cloud.qdrant.io", Dialect::Qdrant),
    ("*.pinecone.io", Dialect::Pinecone),
    ("*.weaviate.cloud", Dialect::Weaviate),
    ("*.weaviate.network", Dialect::Weaviate),
    ("*.zillizcloud.com", Dialect::Milvus),
    ("*.cloud.zilliz.com", Dialect::Milvus),
    ("api.trychroma.com", Dialect::Chroma),
    ("*.elastic-cloud.com", Dialect::Elasticsearch),
    ("*.elastic.cloud", Dialect::Elasticsearch),
    ("*.es.amazonaws.com", Dialect::Elasticsearch),
    ("*.aoss.amazonaws.com", Dialect::Elasticsearch),
];

/// The hosts that providers are publicly known by, as globs: what a forward proxy intercepts by default.
pub fn known_hosts() -> impl Iterator<Item = (&'static str, Dialect)> {
    HOSTS.iter().copied()
}

/// Whose host it is. A port, a dot at the end and case don't matter.
pub(super) fn owner(host: &str) -> Option<Dialect> {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name).trim_end_matches('.');
    HOSTS
        .iter()
        .find(|(pattern, _)| matches(pattern.as_bytes(), name.as_bytes()))
        .map(|(_, dialect)| *dialect)
}

fn matches(pattern: &[u8], name: &[u8]) -> bool {
    if !pattern.last().zip(name.last()).is_some_and(|(a, b)| a.eq_ignore_ascii_case(b)) {
        return false;
    }
    let Some(star) = pattern.iter().position(|byte| *byte == b'*') else {
        return pattern.eq_ignore_ascii_case(name);
    };
    let (before, after) = (&pattern[..star], &pattern[star + 1..]);
    name.len() > before.len() + after.len()
        && name[name.len() - after.len()..].eq_ignore_ascii_case(after)
        && name[..before.len()].eq_ignore_ascii_case(before)
}
