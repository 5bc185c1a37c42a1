"""Reports of `doctor`, as a Document and as JSON."""

from counterpoint.report.doctor.doctor_document import doctor_document as doctor_document
from counterpoint.report.doctor.doctor_document import next_command as next_command
from counterpoint.report.doctor.hosts_json import doctor_json as doctor_json
