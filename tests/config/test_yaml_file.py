"""YAML files of ours, and the line of each value."""

from __future__ import annotations

import pytest
from tests.config.kinds import Fleet, load, written

from evenstep.config.yaml_file import read_yaml
from evenstep.errors import InputError


def test_what_is_not_in_the_file_stands_on_the_line_of_what_is_around_it(tmp_path):
    file = written(tmp_path, "version: 1\npools:\n- limit: 3\n-\n  limit: 4\n")
    document = read_yaml(file)
    assert document.where("pools[1].size.of") == f"{file} line 5"
    assert document.where("pools[7]") == f"{file} line 2"
    assert document.where("pool") == document.where() == str(file)


def test_a_file_that_cannot_be_read_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="expected a readable file"):
        load(tmp_path / "absent.yaml", Fleet)
    with pytest.raises(InputError, match="expected a readable file. File name too long"):
        load("a" * 300, Fleet)
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"version: 1\nname: \xff\xfe\n")
    with pytest.raises(InputError, match="expected UTF-8 text"):
        load(binary, Fleet)
    with pytest.raises(InputError, match="^YAML file: file is ''; expected a readable file"):
        load("", Fleet)
