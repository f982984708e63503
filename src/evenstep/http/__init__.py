"""HTTP/1.1 without I/O: bytes in, events out, bytes to write out.

`server` and `client` are the two sides of a connection. Both parse heads (`head`, `heads`) and frame bodies (`framing`) in
the same way; a violation raises an error there (`errors`). They hold no socket, no loop and no clock: their hosts do.

The rules come from RFC 9110 (HTTP semantics) and RFC 9112 (HTTP/1.1). Where an RFC lets a recipient repair or guess, this
room refuses, because two parsers that repair in different ways let requests be smuggled (RFC 9112 section 11.2). The only
exception is one empty line before a request.
"""
