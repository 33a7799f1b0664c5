//! The words of a simulated model: cutting text into tokens, and the canonical answers.

/// Cuts text into what stands for tokens; joined, they are the text again. A token is the white space before it, if
/// any, and then one ideograph or syllable, or up to eight letters or digits, or one other character.
pub(super) fn tokens(text: &str) -> impl Iterator<Item = &str> + Clone {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (token, after) = rest.split_at(token_length(rest));
        rest = after;
        (!token.is_empty()).then_some(token)
    })
}

pub(super) fn count(text: &str) -> u64 {
    tokens(text).count() as u64
}

fn token_length(text: &str) -> usize {
    let mut chars = text.char_indices().skip_while(|(_, c)| c.is_whitespace());
    match chars.next() {
        None => text.len(),
        Some((_, c)) if is_cjk(c) || !c.is_alphanumeric() => chars.next().map_or(text.len(), |(at, _)| at),
        Some(_) => {
            let mut more = chars.enumerate();
            let end = more.find(|(nth, (_, c))| *nth >= 7 || is_cjk(*c) || !c.is_alphanumeric());
            end.map_or(text.len(), |(_, (at, _))| at)
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Language {
    Chinese,
    English,
    Japanese,
    Korean,
}

impl Language {
    fn of(text: &str) -> Self {
        let has = |test: fn(char) -> bool| text.chars().any(test);
        match () {
            () if has(is_kana) => Self::Japanese,
            () if has(is_hangul) => Self::Korean,
            () if has(is_han) => Self::Chinese,
            () => Self::English,
        }
    }
}

/// What a model says to `prompt`, in the prompt's language. It quotes the prompt's first 64 tokens.
pub(super) fn reply_to(prompt: &str) -> String {
    let quote = quote(prompt);
    match Language::of(prompt) {
        Language::English => format!(
            "You wrote: \"{quote}\". This is a simulated answer: the same request always gets the same words, \
             one token at a time, and no model was asked."
        ),
        Language::Chinese => format!(
            "您写道：“{quote}”。这是模拟的回答：同样的请求总会得到同样的文字，逐个词元送出，没有询问任何模型。"
        ),
        Language::Japanese => format!(
            "「{quote}」と書かれました。これは模擬の回答です。同じ要求にはいつも同じ言葉が一トークンずつ返り、モデルには尋ねていません。"
        ),
        Language::Korean => format!(
            "\"{quote}\"라고 쓰셨습니다. 이것은 모의 응답입니다. 같은 요청에는 언제나 같은 말이 한 토큰씩 돌아오며, 모델에는 묻지 않았습니다."
        ),
    }
}

/// What a model says once a tool has answered `result` to its call.
pub(super) fn reply_to_tool(prompt: &str, result: &str) -> String {
    let quote = quote(result);
    match Language::of(prompt) {
        Language::English => format!(
            "The tool answered: \"{quote}\". This is a simulated answer: it repeats what the tool said, and no \
             model was asked."
        ),
        Language::Chinese => {
            format!("工具的回答是：“{quote}”。这是模拟的回答：它重复工具所说的内容，没有询问任何模型。")
        }
        Language::Japanese => {
            format!(
                "ツールの答えは「{quote}」です。これは模擬の回答で、ツールの言葉を繰り返すだけで、モデルには尋ねていません。"
            )
        }
        Language::Korean => {
            format!(
                "도구의 대답은 \"{quote}\"입니다. 이것은 모의 응답으로, 도구의 말을 되풀이할 뿐 모델에는 묻지 않았습니다."
            )
        }
    }
}

/// What a model says before it calls tools.
pub(super) fn before_calling(prompt: &str, tool: &str) -> String {
    match Language::of(prompt) {
        Language::English => format!("I will call {tool} to answer that."),
        Language::Chinese => format!("我将调用 {tool} 来回答。"),
        Language::Japanese => format!("{tool} を呼び出してお答えします。"),
        Language::Korean => format!("{tool} 도구를 호출해 답하겠습니다."),
    }
}

fn quote(text: &str) -> String {
    const LONGEST: usize = 64;
    let mut tokens = tokens(text.trim());
    let mut quote: String = tokens.by_ref().take(LONGEST).collect();
    if tokens.next().is_some() {
        quote.push('…');
    }
    quote
}

fn is_cjk(c: char) -> bool {
    is_han(c) || is_kana(c) || is_hangul(c)
}

fn is_han(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
}

fn is_kana(c: char) -> bool {
    matches!(c, '\u{3041}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}')
}

fn is_hangul(c: char) -> bool {
    matches!(c, '\u{1100}'..='\u{11ff}' | '\u{3131}'..='\u{318e}' | '\u{ac00}'..='\u{d7a3}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_ideographs_and_punctuation_are_tokens() {
        let cut = |text| tokens(text).collect::<Vec<_>>();
        assert_eq!(cut("Hello, world  你好!\n"), ["Hello", ",", " world", "  你", "好", "!", "\n"]);
        assert_eq!(cut("simulated9x猫a"), ["simulate", "d9x", "猫", "a"]);
        assert_eq!(cut(" "), [" "]);
        assert!(cut("").is_empty());
    }

    #[test]
    fn answers_speak_the_prompts_language() {
        assert!(reply_to("what is SSE?").starts_with("You wrote: \"what is SSE?\". "));
        assert!(reply_to("什么是流？").starts_with("您写道：“什么是流？”。"));
        assert!(reply_to("猫は何ですか").starts_with("「猫は何ですか」"));
        assert!(reply_to("고양이 cat").starts_with("\"고양이 cat\"라고"));
        assert!(reply_to(&"long ".repeat(1000)).contains("long…\""));
        for prompt in ["", "a", "猫", "ねこ", "고"] {
            assert!(count(&reply_to(prompt)) > 20, "{prompt}");
        }
    }

    proptest! {
        #[test]
        fn tokens_joined_are_the_text(text in "\\PC*|[ a-z猫は고é\u{0}-\u{ff}\u{1F600}]{0,40}") {
            prop_assert_eq!(tokens(&text).collect::<String>(), text.clone());
            prop_assert!(tokens(&text).all(|token| !token.is_empty()));
        }
    }
}
