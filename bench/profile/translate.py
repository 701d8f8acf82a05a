"""pydantic's errors in our words: key path as in the file, what was given, what was expected, a near miss."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from bench.profile.fields import Profile, Quantity, Spelled
from bench.profile.problem import Issue, near_miss, shown


def translate(model: type[Profile], raw: Mapping[str, Any], detail: ErrorDetails) -> list[Issue]:
    """Return one pydantic error about ``raw`` as issues."""
    path, field, owner = _walk(model, raw, detail["loc"])
    key = _key(path)
    context = detail.get("ctx", {})
    kind = detail["type"]
    if kind == "bench_many":
        prefix = f"{key}." if key else ""
        return [Issue(prefix + issue.key, issue.given, issue.expected, issue.hint) for issue in context["issues"]]
    if kind == "extra_forbidden":
        known = [info.alias or name for name, info in owner.model_fields.items()]
        unknown = str(path[-1])
        return [Issue(key, f'the unknown key "{unknown}"', f"one of {', '.join(known)}", near_miss(unknown, known))]
    if kind == "too_short" and len(detail["input"]) >= context["min_length"]:
        return []  # counted without the items that are wrong, which are told already
    expected = _expected(field, detail)
    if kind == "missing":
        return [Issue(key, "nothing", expected, "The key is missing")]
    given = context.get("given") or shown(detail["input"])
    if kind == "bench":
        return [Issue(key, given, context["expected"], context["hint"])]
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        tags = [tag for member in _models_in(field and field.annotation) for tag in _tags(member)]
        given = f'"{context["tag"]}"' if "tag" in context else "nothing"
        return [Issue(f"{key}.driver", given, _one_of(tags), near_miss(str(context.get("tag")), tags))]
    hint = ""
    if kind == "literal_error" and isinstance(detail["input"], str):
        allowed = str(context.get("expected", ""))
        hint = near_miss(detail["input"], re.findall(r"'([^']*)'", allowed))
        if detail["input"].strip() in re.split(
            ", | or ", allowed
        ):  # texts among the allowed carry quotes, numbers none
            hint = "Write it without quotes"
    return [Issue(key, given, expected, hint)]


def _key(path: Sequence[str | int]) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _walk(
    model: type[BaseModel], raw: Any, loc: Sequence[str | int]
) -> tuple[list[str | int], FieldInfo | None, type[BaseModel]]:
    """Return the key path in the file, the field it ends at and the model that owns that field.

    pydantic puts the tag of a chosen union member into its path; the file has no such key.
    """
    path: list[str | int] = []
    field: FieldInfo | None = None
    inside: tuple[type[BaseModel], ...] = (model,)
    owner = model
    for part in loc:
        tagged = [member for member in inside if len(inside) > 1 and part in _tags(member)]
        if tagged:
            inside = (tagged[0],)
            continue
        path.append(part)
        owner = inside[0] if inside else owner
        found = {info.alias or name: info for name, info in owner.model_fields.items()}.get(str(part))
        if found:  # else an index, or a name the author chose, such as a specimen's: the field is still the one above
            field = found
            inside = _models_in(field.annotation)
    return path, field, owner


def _tags(member: type[BaseModel]) -> tuple[Any, ...]:
    """Return what the ``driver`` key may say for this member of a union."""
    return get_args(member.model_fields["driver"].annotation)


def _one_of(values: Sequence[Any]) -> str:
    words = [shown(value) for value in values]
    return "one of " + ", ".join(words) if len(words) > 1 else words[0]


def _models_in(annotation: Any) -> tuple[type[BaseModel], ...]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return (annotation,)
    return tuple(model for argument in get_args(annotation) for model in _models_in(argument))


_PLAIN = {
    "string_type": "a text in double quotes",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "date_type": "a date such as 2036-01-31, without quotes",
    "datetime_type": "a date and time such as 2036-01-31T08:00:00Z, without quotes",
    "timezone_aware": "a date and time with its offset from UTC, such as 2036-01-31T08:00:00Z",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
}
_MISSING: dict[Any, str] = {str: _PLAIN["string_type"], int: _PLAIN["int_type"], float: _PLAIN["float_type"]}


def _expected(field: FieldInfo | None, detail: ErrorDetails) -> str:
    """Say what is due at ``field``, from its marks and its type."""
    kind = detail["type"]
    context = detail.get("ctx", {})
    mark = next((mark for mark in _marks(field) if isinstance(mark, Quantity | Spelled)), None)
    if kind == "literal_error":
        return str(context["expected"]).replace("'", '"')
    if kind in ("tuple_type", "too_short", "too_long"):
        each = f", each {mark.expected()}" if mark else ""
        count = {"too_short": "at least {min_length}", "too_long": "at most {max_length}"}.get(kind, "")
        return f"a list in brackets{' with ' if count else ''}{count.format(**context)}{each}"
    if kind == "missing" and field is not None:
        if get_origin(field.annotation) is Literal:
            return _one_of(get_args(field.annotation))
        if get_origin(field.annotation) in (tuple, list):
            return _expected(field, {**detail, "type": "tuple_type"})
        if mark:
            return mark.expected()
        return "a table" if _models_in(field.annotation) else _MISSING.get(field.annotation, "a value")
    if kind in _PLAIN:
        return _PLAIN[kind]
    if mark:
        return mark.expected()
    return detail["msg"].removeprefix("Input should ").removeprefix("be ")


def _marks(field: FieldInfo | None) -> Iterator[Any]:
    """Yield the metadata of a field and of everything inside its type."""
    if field is None:
        return
    yield from field.metadata
    pending = [field.annotation]
    while pending:
        annotation = pending.pop()
        yield from getattr(annotation, "__metadata__", ())
        pending += get_args(annotation)
