//! Real bug reports about JSON bodies and non-ASCII text, each turned into bytes on a socket. Named by case.
