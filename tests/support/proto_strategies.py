"""Hypothesis strategies for any proto message, made from its descriptor: every field, sane or absurd."""

from google.protobuf.descriptor import FieldDescriptor as Field
from hypothesis import strategies as st

MAX_ITEMS = 12
_SMALL = st.integers(0, 70)
_UNSIGNED = _SMALL | st.sampled_from([2**31 - 1, 2**31, 2**32 - 1])
_SIGNED = st.integers(-3, 70) | st.sampled_from([-(2**31), 2**31 - 1])
_DOUBLES = st.sampled_from([0.0, 1.0, 0.5, -1.0, 1e-9, 1e300, float("nan"), float("inf")]) | st.floats(0, 2)
_SCALARS = {
    Field.TYPE_UINT32: _UNSIGNED,
    Field.TYPE_FIXED32: _UNSIGNED,
    Field.TYPE_UINT64: _UNSIGNED | st.just(2**64 - 1),
    Field.TYPE_INT32: _SIGNED,
    Field.TYPE_INT64: _SIGNED | st.sampled_from([-(2**63), 2**63 - 1]),
    Field.TYPE_DOUBLE: _DOUBLES,
    Field.TYPE_FLOAT: st.sampled_from([0.0, 1.0, -1.0, float("nan"), float("inf")]),
    Field.TYPE_BOOL: st.booleans(),
    Field.TYPE_STRING: st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    Field.TYPE_BYTES: st.binary(max_size=20) | st.binary(min_size=16, max_size=16),
}


@st.composite
def messages(draw, kind, depth=4):
    """A message of class `kind`; each field may be absent, of a oneof at most one is there."""
    message = kind()
    done = set()
    for field in kind.DESCRIPTOR.fields:
        oneof = field.containing_oneof
        if oneof is not None and oneof.name not in done and len(oneof.fields) > 1:
            done.add(oneof.name)
            chosen = draw(st.sampled_from([None, *oneof.fields]))
            if chosen is not None:
                _set(draw, message, chosen, depth)
        elif (oneof is None or len(oneof.fields) == 1) and draw(st.booleans()):
            _set(draw, message, field, depth)
    return message


@st.composite
def mutated(draw, valid, max_changes=3):
    """`valid`, a sound message, with up to so many of its fields, or of those inside them, replaced by anything."""
    message = type(valid)()
    message.CopyFrom(valid)
    for _ in range(draw(st.integers(0, max_changes))):
        inner = message
        field = draw(st.sampled_from(list(inner.DESCRIPTOR.fields)))
        while _holds_one(inner, field) and draw(st.booleans()):
            inner = getattr(inner, field.name)
            field = draw(st.sampled_from(list(inner.DESCRIPTOR.fields)))
        inner.ClearField(field.name)
        _set(draw, inner, field, 3)
    return message


def _holds_one(message, field):
    is_message = field.message_type is not None and field.message_type.fields and not field.is_repeated
    return is_message and message.HasField(field.name)


def _set(draw, message, field, depth):
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        for _ in range(draw(st.integers(0, 3))):
            getattr(message, field.name)[draw(_SCALARS[key.type])] = draw(_SCALARS[value.type])
    elif field.message_type is not None:
        if depth > 0:
            _set_message(draw, message, field, depth)
    elif field.is_repeated:
        getattr(message, field.name).extend(draw(st.lists(_scalar(field), max_size=MAX_ITEMS)))
    else:
        setattr(message, field.name, draw(_scalar(field)))


def _set_message(draw, message, field, depth):
    inner = messages(field.message_type._concrete_class, depth - 1)
    if field.is_repeated:
        getattr(message, field.name).extend(draw(st.lists(inner, max_size=3)))
    else:
        getattr(message, field.name).CopyFrom(draw(inner))


def _scalar(field):
    if field.enum_type is not None:
        return st.sampled_from([0, *(value.number for value in field.enum_type.values), 99])
    return _SCALARS[field.type]
