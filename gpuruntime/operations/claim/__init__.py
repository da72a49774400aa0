"""The claim protocol gives one stock unit to one request, even if requests, answers or processes
fail.
"""
