"""What kinds store of a result or an error; prompts are ended through the core, so the bounds live there."""

from duetime.core.results import DEPTH, ERROR_LIMIT, LIMIT, clean_text, encode, encode_whole, error_text, shorten_error

__all__ = ["DEPTH", "ERROR_LIMIT", "LIMIT", "clean_text", "encode", "encode_whole", "error_text", "shorten_error"]
