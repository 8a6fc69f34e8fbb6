"""Names as label values."""

from hashlib import sha256


def parent_label(name: str) -> str:
    """Return a parent's name as the value of the label by which `Reads(label=…)` finds what belongs to it.

    This is the name itself or, past the 63 characters of a label value, its beginning and a hash of the whole.
    """
    if len(name) <= 63:
        return name
    return f"{name[:52].rstrip('-.')}-{sha256(name.encode()).hexdigest()[:10]}"
