"""Reports about runs: their coverage, and smaller plans and short stories for runs that broke a promise. Also the child
processes in which runs take place in parallel.
"""
