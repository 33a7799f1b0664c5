//! Wire codecs and provider knowledge.
