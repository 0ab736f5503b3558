"""What the tables of a campaign's file are made of: a base class, names and numbers."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$", max_length=80)]
Positive = Annotated[int, Field(gt=0)]


class Part(BaseModel):
    """A table of the file: an unknown member is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)
