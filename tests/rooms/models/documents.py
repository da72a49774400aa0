"""Documents drawn from a structural schema, within its bounds, but not its rules."""

from typing import Any

from hypothesis import strategies as st

from gpuruntime.models.definitions.schemas import StructuralSchema


def documents(schema: StructuralSchema) -> st.SearchStrategy[Any]:
    """Draw plain JSON with the schema's defaults filled in; optional members may be absent."""
    match schema:
        case {"enum": words}:
            return st.sampled_from(words)
        case {"type": "string"}:
            return _texts(schema)
        case {"type": "boolean"}:
            return st.booleans()
        case {"type": "integer"}:
            return st.integers(schema.get("minimum", -5), schema.get("maximum", 5))
        case {"type": "array", "items": items}:
            return st.lists(documents(items), max_size=min(3, schema.get("maxItems", 3)))
        case {"type": "object", "properties": properties}:
            drawn = {name: documents(member) for name, member in properties.items()}
            there = {
                *schema.get("required", []),
                *(n for n, m in properties.items() if "default" in m),
            }
            return st.fixed_dictionaries(
                {name: each for name, each in drawn.items() if name in there},
                optional={name: each for name, each in drawn.items() if name not in there},
            )
        case {"type": "object", "additionalProperties": values}:
            return st.dictionaries(st.text("abc", min_size=1), documents(values), max_size=3)
        case _:
            raise ValueError(f"no documents of {schema}")


def _texts(schema: StructuralSchema) -> st.SearchStrategy[str]:
    if schema.get("format") == "date-time":
        return st.sampled_from(["2026-03-01T12:00:00Z", "2026-03-02T00:00:00Z"])
    longest = schema.get("maxLength", 8)
    if "pattern" in schema:
        pattern: str = schema["pattern"]
        return st.from_regex(pattern, fullmatch=True).filter(lambda text: len(text) <= longest)
    plausible = st.sampled_from(["", "1", "0", "-1", "2Gi", "Ki", "http", "/data", "/dev", "a"])
    return (plausible | st.text(max_size=min(longest, 8))).filter(
        lambda text: len(text) <= longest
    )
