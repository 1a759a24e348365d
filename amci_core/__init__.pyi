from .amortization import amortization_map as amortization_map
from .checking import check as check
from .estimation import estimate as estimate
from .estimation import estimate_from_draws as estimate_from_draws
from .estimation import estimate_several as estimate_several
from .estimation import estimate_to as estimate_to
from .estimators import tables as tables
from .evaluation import error_curves as error_curves
from .evaluation import evaluate as evaluate
from .evaluation import read_cases as read_cases
from .evaluation import reuse_errors as reuse_errors
from .flows import Proposals as Proposals
from .models import Problem as Problem
from .models import Variable as Variable
from .models import load_problem as load_problem
from .models import model as model
from .models import problem as problem
from .models import problems as problems
from .models import several as several
from .proposals import load_history as load_history
from .proposals import load_proposals as load_proposals
from .reference import reference_value as reference_value
from .target import fallback_proposals as fallback_proposals
from .target import with_target as with_target
from .training import Choices as Choices
from .training import learn as learn

__version__: str
