r"""What strangers may do to a served page: requests, sessions, messages, shares, log."""
