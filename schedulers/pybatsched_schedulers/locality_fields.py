"""What locality reads of jobs: their input files, the memory they need, and where they ran when a run begins."""

from __future__ import annotations

from typing import Any, Final

from pydantic import Field, ValidationInfo, model_validator

from pybatsched.core.fields import FieldError, JobFields

#: No number of a job is greater: GB, seconds.
MOST: Final = 1e15


class LocalityFields(JobFields):
    """Fields of jobs with an input file each. All jobs of a run give a file the same size."""

    node_memory_gb: float | None = Field(None, gt=0, le=MOST, description="more than 0 GB")
    input_file: str | None = Field(None, min_length=1, description="a name")
    input_size_gb: float | None = Field(None, ge=0, le=MOST, description="GB from 0")
    history_node: int | None = Field(None, ge=0, description="a whole number from 0")
    history_start: float | None = Field(None, ge=-MOST, le=MOST, description="seconds")

    @model_validator(mode="after")
    def _fit_together(self, info: ValidationInfo) -> LocalityFields:
        if self.input_file is None and self.input_size_gb is not None:
            raise FieldError("input_file", "the name of the file whose size is given")
        if self.input_file is not None and self.input_size_gb is None:
            raise FieldError("input_size_gb", "the size of the input_file in GB")
        if self.history_node is None and self.history_start is not None:
            raise FieldError("history_node", "the node on which it started")
        if self.input_file is not None and isinstance(info.context, dict):
            sizes: dict[str, Any] = info.context.setdefault("sizes", {})
            if sizes.setdefault(self.input_file, self.input_size_gb) != self.input_size_gb:
                raise FieldError("input_size_gb", "the size that this file has in a job before it", self.input_size_gb)
        return self
