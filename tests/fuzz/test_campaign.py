"""A thousand damaged and hostile inputs; ten thousand with `make fuzz`."""

import campaign


def test_a_thousand_inputs_are_read_or_refused_in_one_line(capsys, as_users_call_it):
    before = campaign.peak_bytes()
    result = campaign.run(1000)
    assert campaign.peak_bytes() - before < campaign.MOST_BYTES
    for name, kind in result.items():
        assert not kind.wrong, f"{name} {kind.wrong[0]}"
        assert kind.read, f"no change left {name} readable"
        assert kind.refused, f"no change made {name} unreadable"
