"""What the tables of a campaign's file are made of: a base class, names and numbers."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from pybatsched.workload.merge import NAME, NAME_IN_WORDS


def _name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise ValueError(f"expected {NAME_IN_WORDS}, found {text!r:.100}")
    return text


Name = Annotated[str, AfterValidator(_name)]
Positive = Annotated[int, Field(gt=0)]


class Part(BaseModel):
    """A table of the file: an unknown member is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)
