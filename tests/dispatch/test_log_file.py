"""Logs as files: parts, damage, what is refused."""

from __future__ import annotations

import sys

import pytest

from evenstep.dispatch.log import file
from evenstep.dispatch.log.file import LogFile, cut_off, part_of, read_log
from evenstep.dispatch.log.records import Checkpoint, Done, Header
from evenstep.errors import InputError


def write(path, count=20, **options):
    log = LogFile(path, **options)
    log(Header(policy="jsq"))
    for number in range(count):
        if log.is_full:
            log.begin_part(b"as it was")
        log(Done(number, 1, 1))
    log.close()
    return log


@pytest.mark.parametrize("name", ["log.jsonl", "log.evlog"])
@pytest.mark.parametrize("part_bytes", [0, 200])
def test_what_is_written_is_read(tmp_path, name, part_bytes):
    path = tmp_path / name
    log = write(path, part_bytes=part_bytes)
    assert (log.part > 0) == bool(part_bytes)
    assert [r.request for r in read_log(path) if isinstance(r, Done)] == list(range(20))


def test_old_parts_are_deleted_and_what_is_left_is_read_from_the_state_it_began_with(tmp_path):
    path = tmp_path / "log.evlog"
    log = write(path, part_bytes=100, keep=2)
    assert log.part > 2 and not path.exists()
    left = sorted(p.name for p in tmp_path.iterdir())
    assert len(left) == 2
    for start in (path, tmp_path / left[0]):
        header, state, *rest = read_log(start)
        assert isinstance(header, Header) and state == Checkpoint(b"as it was")
        assert [r.request for r in rest][-1] == 19 and len(rest) > 1
    *_, last = read_log(part_of(path, log.part))
    assert last.request == 19
    part_of(path, log.part).rename(part_of(path, 77))
    with pytest.raises(InputError, match="expected part 77"):
        list(read_log(part_of(path, 77)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["log.jsonl", "log.evlog"])
@pytest.mark.parametrize("part_bytes", [0, 200])
def test_a_log_that_was_cut_off_anywhere_is_read_up_to_its_last_whole_record(tmp_path, name, part_bytes):
    path = tmp_path / name
    log = write(path, part_bytes=part_bytes)
    assert cut_off(path) == 0
    last = part_of(path, log.part)
    whole, sizes, count = last.read_bytes(), [0], len(list(read_log(path)))
    for record in whole.splitlines(True) if name == "log.jsonl" else frames(whole):
        sizes.append(sizes[-1] + len(record))
    for size in range(sizes[1] if part_bytes == 0 else 0, len(whole)):
        last.write_bytes(whole[:size])
        assert cut_off(path) == size - max(end for end in sizes if end <= size)
        begins = 2 if part_bytes else 1  # records that begin a part and stand for nothing by themselves
        lost = sum(end > size for end in sizes[begins + 1 :])
        assert len(list(read_log(path))) == count - lost


@pytest.mark.parametrize("name", ["log-phi-3.5.evlog", "log.2026.jsonl"])
@pytest.mark.parametrize("keep", [0, 2])
def test_a_number_at_the_end_of_a_logs_name_is_not_the_number_of_a_part(tmp_path, name, keep):
    path = tmp_path / name
    log = write(path, part_bytes=200, keep=keep)
    assert log.part > 2 and path.exists() == (keep == 0)
    read = [r.request for r in read_log(path) if isinstance(r, Done)]
    assert read == list(range(read[0], 20)) and (read[0] == 0) == (keep == 0)
    assert [r.request for r in read_log(part_of(path, log.part)) if isinstance(r, Done)][-1] == 19
    part_of(path, log.part).write_bytes(part_of(path, log.part).read_bytes()[:-3])
    assert cut_off(path) > 0


@pytest.mark.parametrize("is_there", [True, False])
def test_a_log_ends_before_a_file_in_which_another_log_begins(tmp_path, is_there):
    path, other = tmp_path / "log.evlog", tmp_path / "log.1.evlog"
    write(path, count=3)
    write(other, count=5)
    other.write_bytes(other.read_bytes()[:-2])
    if is_there:
        assert [r.request for r in read_log(path) if isinstance(r, Done)] == [0, 1, 2]
        assert cut_off(path) == 0 < cut_off(other)
    else:
        path.unlink()
        with pytest.raises(InputError, match=r"log\.evlog: file is 'unreadable'"):
            list(read_log(path))
    assert [r.request for r in read_log(other) if isinstance(r, Done)] == [0, 1, 2, 3]


def frames(data):
    while data:
        size = 4 + int.from_bytes(data[:4], "little")
        yield data[:size]
        data = data[size:]


@pytest.mark.parametrize("name", ["log.jsonl", "log.evlog"])
def test_damage_in_the_middle_is_named_by_record(tmp_path, name):
    path = tmp_path / name
    log = write(path, part_bytes=200)
    first = path.read_bytes()
    path.write_bytes(first[:-3])
    assert log.part > 0
    with pytest.raises(InputError, match=r"record [0-9]+: record is 'cut off'"):
        list(read_log(path))
    path.write_bytes(first[:-9] + b"\xff" + first[-8:])
    with pytest.raises(InputError, match=r"record [0-9]+"):
        list(read_log(path))


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "no decision log"), (b'{"event": "done", "request": 1}\n', "record 1"), (b"{}\n", "record 1")],
)
def test_something_else_is_refused(tmp_path, content, said):
    path = tmp_path / "log.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=said):
        list(read_log(path))
    with pytest.raises(InputError, match="unreadable"):
        list(read_log(tmp_path / "none.jsonl"))
    with pytest.raises(InputError, match="keep"):
        LogFile(path, keep=-1)


@pytest.mark.parametrize("name", ["log.jsonl", "log.evlog"])
def test_a_log_begun_anew_is_read_without_the_parts_of_the_one_before(tmp_path, name):
    path = tmp_path / name
    others = [tmp_path / f"other.1{path.suffix}", tmp_path / f"log.old{path.suffix}", tmp_path / "log.1.txt"]
    for other in others:
        other.write_text("mine")
    last = write(path, part_bytes=200).part
    again = write(path, count=1)
    assert last > 1 and again.replaced == last
    assert [r.request for r in read_log(path) if isinstance(r, Done)] == [0]
    assert cut_off(path) == 0
    assert sorted(tmp_path.iterdir()) == sorted([path, *others])
    assert all(other.read_text() == "mine" for other in others)


def test_parts_are_replaced_too_when_the_first_of_them_was_deleted(tmp_path):
    path = tmp_path / "log.evlog"
    write(path, part_bytes=100, keep=2)
    assert not path.exists()
    assert write(path, count=3).replaced == 2
    assert [r.request for r in read_log(path) if isinstance(r, Done)] == [0, 1, 2]
    assert write(tmp_path / "new.evlog").replaced == 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /dev/full")
def test_a_device_at_the_path_is_never_deleted(tmp_path):
    """A link stands for the device: the name that would be deleted is the link's."""
    path = tmp_path / "log.evlog"
    path.symlink_to("/dev/full")
    log = LogFile(path)
    log(Header(policy="jsq"))
    with pytest.raises(OSError, match="No space left"):
        log.flush()
    log.give_up()
    assert path.is_symlink()


@pytest.mark.parametrize("name", ["log.jsonl", "log.evlog"])
def test_records_written_while_a_log_is_counted_are_not_missing_bytes(tmp_path, name, monkeypatch):
    path = tmp_path / name
    write(path, count=3)
    grown, frames, lines = path.read_bytes(), file._frames, file._lines

    def growing(pieces):
        def read(handle, may_be_cut):
            yield from pieces(handle, may_be_cut)
            with path.open("ab") as more:
                more.write(grown)
            yield from pieces(handle, may_be_cut)

        return read

    monkeypatch.setattr(file, "_frames", growing(frames))
    monkeypatch.setattr(file, "_lines", growing(lines))
    assert cut_off(path) == 0


@pytest.mark.parametrize("name", ["log.jsonl", "log.evlog"])
def test_a_log_that_is_written_while_it_is_read_is_read_without_a_gap(tmp_path, name, monkeypatch):
    """Between the end of the last part and the look for another one, its writer ends that part and begins the next."""
    path, records = tmp_path / name, file._records
    log = LogFile(path)
    for record in (Header(policy="jsq"), Done(0, 1, 1)):
        log(record)
    log.flush()

    def going_on(place, may_be_cut):
        yield from records(place, may_be_cut)
        if not log.part:
            log(Done(1, 1, 1))
            log.begin_part(b"")
            log(Done(2, 1, 1))
            log.flush()

    monkeypatch.setattr(file, "_records", going_on)
    assert [record.request for record in read_log(path) if isinstance(record, Done)] == [0]
    assert [record.request for record in read_log(path) if isinstance(record, Done)] == [0, 1, 2]
