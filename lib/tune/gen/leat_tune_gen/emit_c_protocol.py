# SPDX-License-Identifier: BSD-3-Clause
"""Emit the messages of a protocol in C: structures, pack and unpack."""

from __future__ import annotations

from .emit_c import comment, string
from .model import Field, Message, Protocol
from .names import upper

C_TYPES = {"bool": "bool", "integer": "int64_t", "mask": "uint64_t", "real": "double"}


def _declaration(f: Field) -> str:
    if f.type == "string":
        return f"char {f.name}[{f.size}];"
    return f"{C_TYPES[f.type]} {f.name};"


def _prototypes(p: Protocol, m: Message) -> tuple[str, str]:
    name = f"{p.name}_msg_{m.name}"
    pack = f"{name}_pack(const struct {name} *m, void *buf, size_t len)"
    unpack = f"{name}_unpack(struct {name} *m, const void *buf, size_t len"
    if m.payload:
        unpack += ",\n\tconst void **payload, size_t *payload_len"
    return pack, unpack + ")"


def header(p: Protocol) -> str:
    """Return NAME_protocol.h."""
    guard = upper(p.name, "protocol_h")
    word = upper(p.name)
    out = [
        f"/* Made by leat-tune-gen of the description of {p.name}'s messages: change that. */\n\n"
        f"#ifndef {guard}\n#define {guard}\n\n/*\n"
        " * pack() writes a message of NAME_SIZE bytes, behind which comes the payload, if there "
        "is\n"
        " * any. It returns this number, or -ENOBUFS if len is smaller.\n"
        " *\n"
        " * unpack() takes bytes that may come from anywhere. It returns 0; -EPROTO: too short, "
        "too\n"
        " * long, or a string without end; -EINVAL: a bool that is neither 0 nor 1. payload "
        "points\n"
        " * into buf.\n"
        " */\n\n"
        "#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n\n"
        '#ifdef __cplusplus\nextern "C" {\n#endif\n',
        f"#define {word}_PROTOCOL_HASH UINT64_C({p.hash:#018x})\n",
        f"enum {p.name}_msg {{\n"
        + "".join(
            f"\t{upper(p.name, 'msg', m.name)} = {m.number}, /* {m.direction} */\n"
            for m in p.messages
        )
        + "};\n",
    ]
    for m in p.messages:
        name = f"{p.name}_msg_{m.name}"
        pack, unpack = _prototypes(p, m)
        out.append(f"/* {comment(m.help)} */\nstruct {name} {{\n" + "".join(
            f"\t{_declaration(f)} /* {comment(f.help)} */\n" for f in m.fields)
            + (f"\t/* behind it: {m.payload} of a component */\n" if m.payload else "") + "};\n\n"
            f"#define {upper(name)}_SIZE {m.size}U\n\n"
            f"int {pack};\nint {unpack};\n")
    out.append(f"#ifdef __cplusplus\n}}\n#endif\n\n#endif /* {guard} */\n")
    return "\n".join(out)


HELPERS = {
    "put_number": """static void
put_number(uint8_t *p, uint64_t v)
{
	unsigned int i;

	for (i = 0; i < 8; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}
""",
    "get_number": """static uint64_t
get_number(const uint8_t *p)
{
	uint64_t v = 0;
	unsigned int i;

	for (i = 0; i < 8; i++)
		v |= (uint64_t)p[i] << (8 * i);
	return v;
}
""",
    "put_string": """/* The place is filled with zeros, at least one: len is below its size. */
static void
put_string(uint8_t *p, size_t place, const char *text, size_t size)
{
	size_t len = strnlen(text, size - 1);

	memcpy(p, text, len);
	memset(p + len, 0, place - len);
}
""",
    "get_string": """/* -EPROTO: no end, or something behind it. */
static int
get_string(char *to, size_t size, const uint8_t *p, size_t place)
{
	size_t i, len = strnlen((const char *)p, size);

	if (len == size)
		return -EPROTO;
	for (i = len; i < place; i++)
		if (p[i] != 0)
			return -EPROTO;
	memcpy(to, p, len);
	memset(to + len, 0, size - len);
	return 0;
}
""",
}


def _put(f: Field) -> str:
    at = f"p + {f.offset}"
    if f.type == "string":
        return f"\tput_string({at}, {f.bytes}, m->{f.name}, sizeof(m->{f.name}));\n"
    if f.type == "real":
        return (f"\tmemcpy(&bits, &m->{f.name}, sizeof(bits));\n"
                f"\tput_number({at}, bits);\n")
    if f.type == "bool":
        return f"\tput_number({at}, m->{f.name} ? 1 : 0);\n"
    return f"\tput_number({at}, (uint64_t)m->{f.name});\n"


def _get(f: Field) -> str:
    at = f"p + {f.offset}"
    if f.type == "string":
        return (f"\tif (get_string(out.{f.name}, sizeof(out.{f.name}), {at}, {f.bytes}) < 0)\n"
                "\t\treturn -EPROTO;\n")
    if f.type == "bool":
        return (f"\tif (get_number({at}) > 1)\n\t\treturn -EINVAL;\n"
                f"\tout.{f.name} = get_number({at}) == 1;\n")
    if f.type == "real":
        return f"\tbits = get_number({at});\n\tmemcpy(&out.{f.name}, &bits, sizeof(bits));\n"
    if f.type == "mask":
        return f"\tout.{f.name} = get_number({at});\n"
    return f"\tout.{f.name} = (int64_t)get_number({at});\n"


def _functions(p: Protocol, m: Message) -> str:
    pack, unpack = _prototypes(p, m)
    size = upper(p.name, "msg", m.name, "size")
    bits = "\tuint64_t bits;\n" if any(f.type == "real" for f in m.fields) else ""
    out = (f"int\n{pack}\n{{\n\tuint8_t *p = buf;\n{bits}\n"
           f"\tif (len < {size})\n\t\treturn -ENOBUFS;\n")
    out += "".join(_put(f) for f in m.fields)
    out += f"\treturn (int){size};\n}}\n\n"
    out += (f"int\n{unpack}\n{{\n\tconst uint8_t *p = buf;\n"
            f"\tstruct {p.name}_msg_{m.name} out;\n{bits}\n"
            f"\tif (len {'<' if m.payload else '!='} {size})\n\t\treturn -EPROTO;\n")
    out += "".join(_get(f) for f in m.fields)
    out += "\t*m = out;\n"
    if m.payload:
        out += f"\t*payload = p + {size};\n\t*payload_len = len - {size};\n"
    return out + "\treturn 0;\n}\n"


def source(p: Protocol, header_name: str) -> str:
    """Return NAME_protocol.c."""
    types = {f.type for m in p.messages for f in m.fields}
    used = ["put_number", "get_number"] if types != {"string"} else []
    used += ["put_string", "get_string"] if "string" in types else []
    return "\n".join(
        [f"/* Made by leat-tune-gen of the description of {p.name}'s messages: change that. */\n\n"
         "#include <errno.h>\n#include <string.h>\n\n"
         f"#include {string(header_name)}\n"]
        + [HELPERS[name] for name in used] + [_functions(p, m) for m in p.messages])
