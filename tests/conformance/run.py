"""The conformance suite. Its tests arrive with the parts they test."""
