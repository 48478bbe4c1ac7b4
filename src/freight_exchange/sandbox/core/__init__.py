"""The exchange itself: a pure function of a call, a time and a state.

`exchange` takes a call through authentication to its operation in `operations`. An operation reads and changes the
`database` through a `request_context`; `validation` reads its parameters, `paging` and `sorter` shape its listings.
`audit_log` records every call and change, and `state_file` keeps an exchange on disk.
"""
