"""The exchange itself: a pure function of a call, a time and a state.

`exchange` authenticates a call and runs its operation in `operations`. An operation reads and changes the `database`
through a `request_context`. `validation` reads its parameters; `paging` and `sorter` cut and order its listings.
`audit_log` records all calls and changes, and `state_file` saves an exchange on disk.
"""
