"""The command `convert`: the same job, in the other form.

Source: JOBS "Jobs in Python".
"""

from __future__ import annotations

from holdfast.services.cli.jobs import File
from holdfast.services.cli.terminal import print_plain


def convert(file: File) -> None:
    """Print a job file as a job in Python, or a job in Python as a job file.

    Both forms are the same job: the plans are equal. Comments of a job file are lost, and settings that it leaves out
    stay left out.

    Example: holdfast convert job.yaml > my_jobs.py && holdfast check my_jobs.py
    """
    from holdfast.services.cli.jobs import refuse
    from holdfast.services.client.job_files import in_python, read_job
    from holdfast.services.kernel.errors import JobRejected
    from holdfast.services.planning.conversion import to_python, to_yaml

    try:
        spec = read_job(file).spec
    except JobRejected as rejected:
        refuse(str(file), rejected.problems, False)
        return
    print_plain((to_yaml(spec) if in_python(file) else to_python(spec)).rstrip("\n"))
